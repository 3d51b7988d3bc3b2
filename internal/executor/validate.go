package executor

import (
	"context"

	"github.com/toolyard/toolyard/internal/validate"
	"github.com/toolyard/toolyard/tool"
)

// validation repairs and checks the arguments against the schema, then asks the
// tool for the faults that a schema cannot express.
func validation(next handler) handler {
	return func(ctx context.Context, c *call) *tool.Result {
		if err := c.setArguments(c.in.Arguments); err != nil {
			return refuse(err)
		}
		return next(ctx, c)
	}
}

// setArguments makes raw the arguments of the call if they are valid.
func (c *call) setArguments(raw []byte) error {
	args, repaired, err := c.handle.Validator.Arguments(raw)
	if err != nil {
		return err
	}
	c.args, c.canonical = args, nil
	c.forget()
	c.repaired = c.repaired || repaired
	v, ok := c.handle.Tool.(tool.Validator)
	if !ok {
		return nil
	}
	if faults := v.Validate(c.request()); len(faults) > 0 {
		err := validate.FaultsError(faults)
		err.Code = tool.ParameterError
		return err
	}
	return nil
}

// canonicalArguments are the arguments in the one form that equal arguments
// have.
func (c *call) canonicalArguments() []byte {
	if c.canonical == nil {
		canonical, err := validate.Canonical(c.args)
		if err != nil {
			canonical = c.args
		}
		c.canonical = canonical
	}
	return c.canonical
}

package toolyard

import (
	"github.com/toolyard/toolyard/internal/profile"
	"github.com/toolyard/toolyard/internal/registry"
	"github.com/toolyard/toolyard/tool"
)

// chooseProfile reads the profiles of the Config and finds the one that is used
// where none is named.
func (t *Toolyard) chooseProfile() (err error) {
	defined := make(map[string]profile.Definition, len(t.config.Profiles))
	for name, p := range t.config.Profiles {
		defined[name] = profile.Definition{Tools: p.Tools, Mode: p.Mode}
	}
	if t.profiles, err = profile.New(defined); err != nil {
		return err
	}
	t.profile, err = t.profiles.Find(t.config.Profile)
	return err
}

// Search finds tools by what they do, in English or Chinese, among those that can
// be called with Config.Profile: the best first, at most limit (zero means 10). A
// family that is not "" leaves out all others.
func (t *Toolyard) Search(query, family string, limit int) []tool.Match {
	return t.registry.Matches(registry.Filter{Text: query, Category: family, Allowed: t.profile.Allowed()}, limit)
}

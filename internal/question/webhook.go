package question

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

// postTime is how long a webhook may take.
const postTime = 10 * time.Second

// CheckWebhook says why an address cannot be a webhook.
func CheckWebhook(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return tool.Errorf(tool.ParameterError, "questions.webhook is no address of a web server").
			WithHint("Give an http or https URL, such as https://example.org/questions.")
	}
	return nil
}

// post sends the question to the webhook, in its own time. The channel gets how
// it went; it is nil if there is no webhook.
func (d *Desk) post(q store.Question) <-chan error {
	if d.config.Webhook == "" {
		return nil
	}
	done := make(chan error, 1)
	d.work.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), postTime)
		defer cancel()
		go func() { // ends with ctx
			select {
			case <-d.closed:
				cancel()
			case <-ctx.Done():
			}
		}()
		err := d.send(ctx, q)
		if err != nil {
			d.config.Log.Warn("the webhook has not got a question", "question", q.ID, "err", err)
		}
		done <- err
	})
	return done
}

func (d *Desk) send(ctx context.Context, q store.Question) error {
	body, err := json.Marshal(q)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, d.config.Webhook, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "toolyard")
	resp, err := d.config.Client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the webhook answered %s", resp.Status)
	}
	return nil
}

package executor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolyard/toolyard/internal/executor"
	"github.com/toolyard/toolyard/internal/policy"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

func asking(name string) tool.Tool {
	return function(tool.Spec{Name: name, Effects: tool.Execute, Default: tool.Ask, ConcurrencySafe: true}, func(_ context.Context, _ *tool.Request, in echoIn) (*tool.Result, error) {
		return tool.Text("ran " + in.Text), nil
	})
}

func TestPermissionAnswers(t *testing.T) {
	tests := []struct {
		name  string
		asker executor.Asker
		code  tool.Code // "" if the call runs
		texts []string
	}{
		{"nobody", nil, tool.PermissionDenied, []string{"nobody can be asked", "`toolyard policy allow '"}},
		{"no channel", answers(func(context.Context, tool.Question) (tool.Answer, error) {
			return tool.Answer{}, fmt.Errorf("client: %w", tool.ErrNoChannel)
		}), tool.PermissionDenied, []string{"`toolyard policy allow '"}},
		{"once", answers(func(context.Context, tool.Question) (tool.Answer, error) { return tool.Answer{Option: "once"}, nil }), "", nil},
		{"reject with a reason", answers(func(context.Context, tool.Question) (tool.Answer, error) {
			return tool.Answer{Option: "reject", Text: "use make instead"}, nil
		}), tool.PermissionDenied, []string{"use make instead"}},
		{"no answer", answers(func(ctx context.Context, _ tool.Question) (tool.Answer, error) {
			<-ctx.Done()
			return tool.Answer{}, ctx.Err()
		}), tool.PermissionTimeout, []string{"50s", "`toolyard policy allow '"}},
		{"a broken asker", answers(func(context.Context, tool.Question) (tool.Answer, error) { return tool.Answer{}, errors.New("broken") }), tool.PermissionDenied, nil},
		{"an unknown option", answers(func(context.Context, tool.Question) (tool.Answer, error) { return tool.Answer{Option: "sure"}, nil }), tool.PermissionDenied, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, nil, asking("t"))
				start := time.Now()
				r := b.Call(t.Context(), executor.Call{Tool: "t", Session: "s", Asker: test.asker})
				if test.code == "" {
					passed(t, r)
					return
				}
				coded(t, r, test.code)
				contains(t, r.TextContent(), test.texts...)
				if test.asker == nil && r.Err.Details["reason"] != "no_channel" {
					t.Errorf("details = %v", r.Err.Details)
				}
				if took := time.Since(start); test.code == tool.PermissionTimeout && took != 50*time.Second {
					t.Errorf("waited %s", took)
				}
			})
		})
	}
}

func TestPermissionQuestionShowsTheRules(t *testing.T) {
	b := newBench(t, nil, asking("t"))
	var q tool.Question
	var kinds []string
	r := b.Call(t.Context(), executor.Call{Tool: "t", Session: "s", OnEvent: func(e tool.Event) { kinds = append(kinds, e.Type) },
		Asker: answers(func(_ context.Context, got tool.Question) (tool.Answer, error) {
			q = got
			return tool.Answer{Option: "once"}, nil
		})})
	passed(t, r)
	var options []string
	for _, o := range q.Options {
		options = append(options, o.ID)
	}
	if q.Kind != "permission" || q.Deadline != 50*time.Second || !slices.Contains(options, "once") || !slices.Contains(options, "reject") || q.Details["tool"] != "t" {
		t.Errorf("question = %+v", q)
	}
	if _, ok := q.Details["suggest"]; ok != slices.Contains(options, "always") {
		t.Errorf("always without a rule to save: %+v", q)
	}
	want := []string{tool.EventCallStarted, tool.EventPermissionAsked, tool.EventPermissionReplied, tool.EventCallFinished}
	if !slices.Equal(kinds, want) {
		t.Errorf("events = %v, want %v", kinds, want)
	}
}

func TestAlwaysSavesRulesAndSettlesWhatTheyCover(t *testing.T) {
	for _, saved := range []bool{true, false} {
		t.Run(fmt.Sprintf("saved %v", saved), func(t *testing.T) {
			var b *bench
			var mu sync.Mutex
			var rows []store.Rule
			b = newBench(t, func(c *executor.Config) {
				if !saved {
					return
				}
				c.SaveRule = func(_ context.Context, r store.Rule) error {
					mu.Lock()
					defer mu.Unlock()
					rows = append(rows, r)
					rule, err := policy.ParseRule(tool.Allow, r.Rule, policy.User, "answer")
					if err != nil {
						return err
					}
					p, err := policy.New([]policy.Rule{rule})
					b.SetPolicy(p)
					return err
				}
			}, asking("t"), asking("other"))
			waiting := make(chan struct{}, 3)
			silent := answers(func(ctx context.Context, _ tool.Question) (tool.Answer, error) {
				waiting <- struct{}{}
				<-ctx.Done()
				return tool.Answer{}, ctx.Err()
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			results := make(chan *tool.Result, 2)
			other := make(chan *tool.Result, 1)
			for range 2 {
				go func() { results <- b.Call(ctx, executor.Call{Tool: "t", Session: "s", Workspace: "/w", Asker: silent}) }()
			}
			go func() {
				other <- b.Call(ctx, executor.Call{Tool: "other", Session: "s", Workspace: "/w", Asker: silent})
			}()
			for range 3 {
				<-waiting
			}
			yes := answers(func(_ context.Context, q tool.Question) (tool.Answer, error) {
				return tool.Answer{Option: "always", By: "ann"}, nil
			})
			passed(t, b.Call(ctx, executor.Call{Tool: "t", Session: "s", Workspace: "/w", Asker: yes}))
			for range 2 {
				passed(t, <-results)
			}
			passed(t, b.Call(ctx, executor.Call{Tool: "t", Session: "s", Workspace: "/w"}))
			cancel()
			coded(t, <-other, tool.Cancelled)
			if saved && (len(rows) != 1 || rows[0].Action != "allow" || rows[0].By != "ann" || rows[0].Scope != "project" || rows[0].ScopeKey != "/w") {
				t.Errorf("saved %+v", rows)
			}
			if r := b.Call(t.Context(), executor.Call{Tool: "t", Session: "s2", Workspace: "/w"}); r.IsError == saved {
				t.Errorf("another session: %q", r.TextContent())
			}
		})
	}
}

// strict is a tool that tightens its own permission.
type strict struct {
	tool.Tool
	action tool.Action
	args   string
}

func (s strict) Permit(_ context.Context, req *tool.Request, _ tool.Action) (tool.Action, string) {
	if s.args != "" {
		req.Arguments = []byte(s.args)
	}
	return s.action, "the tool says so"
}

func TestPermitterOnlyTightens(t *testing.T) {
	allowed := func() tool.Tool { return echo() }
	tests := []struct {
		name string
		tool tool.Tool
		code tool.Code
		text string
	}{
		{"deny", strict{allowed(), tool.Deny, ""}, tool.PermissionDenied, "the tool says so"},
		{"ask", strict{allowed(), tool.Ask, ""}, tool.PermissionDenied, "nobody can be asked"},
		{"allow does not loosen", strict{asking("echo"), tool.Allow, ""}, tool.PermissionDenied, "nobody can be asked"},
		{"narrowed arguments", strict{allowed(), tool.Allow, `{"text":"narrow"}`}, "", "narrow"},
		{"narrowed to nonsense", strict{allowed(), tool.Allow, `{"texxt":1}`}, tool.ValidationError, "texxt"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := newBench(t, nil, test.tool).Call(t.Context(), executor.Call{Tool: "echo", Arguments: []byte(`{"text":"wide"}`)})
			if test.code == "" {
				passed(t, r)
			} else {
				coded(t, r, test.code)
			}
			contains(t, r.TextContent(), test.text)
		})
	}
}

func TestSessionRulesHoldForTheirSession(t *testing.T) {
	b := newBench(t, nil, asking("t"), echo())
	allow, err := policy.ParseRule(tool.Allow, "t", policy.Session, "--allow")
	if err != nil {
		t.Fatal(err)
	}
	deny, err := policy.ParseRule(tool.Deny, "echo", policy.Session, "--deny")
	if err != nil {
		t.Fatal(err)
	}
	rules := []policy.Rule{allow, deny}
	for range 2 {
		passed(t, b.Call(t.Context(), executor.Call{Tool: "t", Session: "a", Rules: rules}))
		r := b.Call(t.Context(), executor.Call{Tool: "echo", Session: "a", Rules: rules})
		coded(t, r, tool.PermissionDenied)
		if !strings.Contains(fmt.Sprint(r.Err.Details), "--deny") {
			t.Errorf("details = %v", r.Err.Details)
		}
		coded(t, b.Call(t.Context(), executor.Call{Tool: "t", Session: "b"}), tool.PermissionDenied)
		passed(t, b.Call(t.Context(), executor.Call{Tool: "echo", Session: "a"}))
	}
}

// A rule that an answer has saved holds for the rest of the batch too, whose
// calls were judged with the rules of its beginning.
func TestAlwaysHoldsForTheRestOfABatch(t *testing.T) {
	saved := 0
	b := newBench(t, func(c *executor.Config) {
		c.DoomLoop = "off"
		c.SaveRule = func(context.Context, store.Rule) error { saved++; return nil }
	}, asking("t"))
	asked := 0
	who := answers(func(context.Context, tool.Question) (tool.Answer, error) {
		asked++
		return tool.Answer{Option: "always"}, nil
	})
	calls := slices.Repeat([]executor.Call{{Tool: "t", Session: "s", Workspace: "/w", Asker: who}}, 5)
	for _, r := range b.ExecuteBatch(t.Context(), calls, tool.BatchOptions{MaxParallel: 1}) {
		passed(t, r)
	}
	if asked != 1 || saved != 1 {
		t.Errorf("asked %d times, saved %d rules", asked, saved)
	}
	passed(t, b.Call(t.Context(), calls[0]))
	if asked != 2 {
		t.Error("the rule was kept beyond its batch, though it is for SaveRule to keep it")
	}
}

func TestClientHearsThatAPersonIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil, asking("t"))
		progress := 0
		who := answers(func(context.Context, tool.Question) (tool.Answer, error) {
			time.Sleep(35 * time.Second)
			return tool.Answer{Option: "once"}, nil
		})
		passed(t, b.Call(t.Context(), executor.Call{Tool: "t", Asker: who, OnEvent: func(e tool.Event) {
			if e.Type == tool.EventCallProgress {
				progress++
			}
		}}))
		if progress != 3 {
			t.Errorf("%d events of progress in 35 s", progress)
		}
	})
}

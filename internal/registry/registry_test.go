package registry_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/toolyard/toolyard/internal/event"
	"github.com/toolyard/toolyard/internal/registry"
	"github.com/toolyard/toolyard/tool"
)

// fake is a tool whose abilities a test sets.
type fake struct {
	spec           tool.Spec
	start          func(context.Context) error
	close          func(context.Context) error
	health         func(context.Context) error
	enabled        func() (bool, string)
	tenant, projct string
}

func (f *fake) Spec() *tool.Spec { return &f.spec }
func (f *fake) Call(context.Context, *tool.Request) (*tool.Result, error) {
	return tool.Text(f.spec.Version), nil
}
func (f *fake) Start(ctx context.Context) error {
	if f.start == nil {
		return nil
	}
	return f.start(ctx)
}
func (f *fake) Close(ctx context.Context) error {
	if f.close == nil {
		return nil
	}
	return f.close(ctx)
}
func (f *fake) CheckHealth(ctx context.Context) error {
	if f.health == nil {
		return nil
	}
	return f.health(ctx)
}
func (f *fake) Enabled(context.Context) (bool, string) {
	if f.enabled == nil {
		return true, ""
	}
	return f.enabled()
}
func (f *fake) Owner() (string, string) { return f.tenant, f.projct }

func named(full string) *fake {
	source, name, ok := strings.Cut(full, ":")
	if !ok {
		source, name = "", full
	}
	return &fake{spec: tool.Spec{Name: name, Source: source, Description: "does " + name, Effects: tool.Read}}
}

func with(t *testing.T, tools ...tool.Tool) *registry.Registry {
	t.Helper()
	r := registry.New(registry.Config{})
	for _, one := range tools {
		if err := r.Add(t.Context(), one); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func code(err error) tool.Code {
	if err == nil {
		return ""
	}
	return tool.AsError(err).Code
}

func list(r *registry.Registry, tenant, project string) []string {
	var names []string
	for _, e := range r.Snapshot(tenant, project) {
		names = append(names, e.Spec.FullName()+" "+string(e.State))
	}
	return names
}

func TestNames(t *testing.T) {
	read, bash, pdf := named("read"), named("bash"), named("toolbox:read_pdf")
	read.spec.Aliases = []string{"view", "bash"} // its alias must not take the name of another
	gh := named("github:create_issue")
	r := with(t, read, bash, pdf, gh)
	for name, want := range map[string]string{
		"read": "read", "view": "read", "bash": "bash", "Read": "read", "file_read": "read", "Bash": "bash",
		"run_command": "bash", "delete": "bash", "toolbox:read_pdf": "toolbox:read_pdf", "toolbox__read_pdf": "toolbox:read_pdf",
		"mcp__toolyard__read": "read", "mcp__toolyard__toolbox__read_pdf": "toolbox:read_pdf", "mcp__github__create_issue": "github:create_issue",
	} {
		h, err := r.Acquire(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := h.Spec.FullName(); got != want || h.Validator == nil || h.Tool == nil {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
		h.Release()
	}
	for name, hint := range map[string]string{
		"raed":                     "Did you mean read?",
		"read_pfd":                 "Did you mean toolbox:read_pdf?",
		"Grep":                     "The nearest are",
		"read_pdf":                 "Did you mean toolbox:read_pdf?",
		strings.Repeat("x", 10000): "The nearest are",
	} {
		_, err := r.Acquire(name)
		if e := tool.AsError(err); code(err) != tool.ToolNotFound || !strings.HasPrefix(e.Hint, hint) || len(e.Message) > 150 {
			t.Errorf("%.20s: got %v, want hint %q", name, err, hint)
		}
	}
	if _, err := registry.New(registry.Config{}).Acquire("read"); code(err) != tool.ToolNotFound || tool.AsError(err).Hint == "" {
		t.Errorf("empty registry: %v", err)
	}
}

func TestWireName(t *testing.T) {
	long := "source:" + strings.Repeat("n", 60)
	for _, c := range []struct{ full, want string }{
		{"read", "read"},
		{"github:create_issue", "github__create_issue"},
		{"a:b__c", "a__b__c_"},
		{"a__b:c", "a__b__c_"},
		{"srv:dot.name", "srv__dot_name_"},
		{long, "source__" + strings.Repeat("n", 31) + "_"},
	} {
		got := registry.WireName(c.full)
		if strings.HasSuffix(c.want, "_") {
			if !strings.HasPrefix(got, c.want) || len(got) != len(c.want)+8 {
				t.Errorf("%s: got %s, want %s and a hash", c.full, got, c.want)
			}
		} else if got != c.want {
			t.Errorf("%s: got %s, want %s", c.full, got, c.want)
		}
		if len(got) > 48 {
			t.Errorf("%s: %d characters", got, len(got))
		}
	}
	if registry.WireName("a:b__c") == registry.WireName("a__b:c") {
		t.Error("two tools have one wire name")
	}
	h, err := with(t, named(long)).Acquire(registry.WireName(long))
	if err != nil || h.Spec.FullName() != long {
		t.Errorf("by its wire name: %v", err)
	}
}

func TestLife(t *testing.T) {
	bus := event.New(0)
	sub, _ := bus.Subscribe(0, nil)
	defer sub.Close()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r := registry.New(registry.Config{Bus: bus, Now: func() time.Time { return now }})
	var heard []string
	r.OnTransition(func(id string, tr registry.Transition) {
		heard = append(heard, fmt.Sprintf("%s %s>%s", id, tr.From, tr.To))
		r.Snapshot("", "") // a listener may ask
	})
	changes := 0
	r.OnChange(func() { changes++ })
	steps := []struct {
		do   func() error
		want tool.Code
	}{
		{func() error { return r.Add(t.Context(), named("x")) }, ""},
		{func() error { return r.Add(t.Context(), named("x")) }, tool.Conflict},
		{func() error { return r.SetEnabled("x", true, "") }, ""},
		{func() error { return r.SetEnabled("x", false, "by hand") }, ""},
		{func() error { _, err := r.Acquire("x"); return err }, tool.ToolDisabled},
		{func() error { return r.Fail("x", "boom") }, tool.Conflict}, // disabled to error
		{func() error { return r.SetEnabled("x", true, "by hand") }, ""},
		{func() error { return r.Fail("x", "boom") }, ""},
		{func() error { _, err := r.Acquire("x"); return err }, tool.ToolDisabled},
		{func() error { return r.SetEnabled("x", true, "again") }, ""},
		{func() error { return r.Fail("x", "boom") }, ""},
		{func() error { return r.SetEnabled("x", false, "critical") }, ""},
		{func() error { return r.Remove(t.Context(), "x") }, ""},
		{func() error { return r.Remove(t.Context(), "x") }, tool.ToolNotFound},
		{func() error { return r.SetEnabled("x", true, "") }, tool.ToolNotFound},
	}
	for i, s := range steps {
		if got := code(s.do()); got != s.want {
			t.Errorf("step %d: got %q, want %q", i, got, s.want)
		}
	}
	want := []string{"x registered>initializing", "x initializing>ready", "x ready>disabled", "x disabled>ready", "x ready>error",
		"x error>ready", "x ready>error", "x error>disabled", "x disabled>unregistered"}
	if diff := cmp.Diff(want, heard); diff != "" {
		t.Errorf("transitions (-want +got)\n%s", diff)
	}
	if changes == 0 {
		t.Error("no change was told")
	}
	for i := range want {
		e := <-sub.C()
		if got := fmt.Sprintf("%s %s>%s", e.Tool, e.Data["from"], e.Data["to"]); got != want[i] || e.Type != tool.EventToolState || !e.Time.Equal(now) {
			t.Errorf("event %d: %+v, want %s", i, e, want[i])
		}
	}
	err := r.Fail("x", "")
	if code(err) != tool.ToolNotFound {
		t.Errorf("got %v", err)
	}
}

func TestIllegalNamesBothStates(t *testing.T) {
	r := with(t, named("x"))
	if err := r.SetEnabled("x", false, ""); err != nil {
		t.Fatal(err)
	}
	if err := r.Fail("x", ""); err == nil || err.Error() != "x cannot go from disabled to error" {
		t.Errorf("got %v", err)
	}
	for name, want := range map[string]registry.State{"active": registry.Ready, "READY": registry.Ready, "unregistered": registry.Unregistered} {
		if got, err := registry.ParseState(name); got != want || err != nil {
			t.Errorf("%s: got %s, %v", name, got, err)
		}
	}
	if _, err := registry.ParseState("running"); err == nil {
		t.Error("running is a state")
	}
}

func TestAddRefuses(t *testing.T) {
	broken := named("broken")
	broken.spec.Input = &jsonschema.Schema{Type: "nonsense"}
	failing := named("failing")
	failing.start = func(context.Context) error { return errors.New("no licence") }
	panicking := named("panicking")
	panicking.start = func(context.Context) error { panic("oh") }
	useless := named("useless")
	useless.enabled = func() (bool, string) { return false, "git is not installed" }
	r := registry.New(registry.Config{})
	for _, c := range []struct {
		tool tool.Tool
		want tool.Code
	}{
		{broken, tool.ValidationError}, {failing, tool.ExecutionError}, {panicking, tool.ExecutionError}, {useless, ""}, {named("fine"), ""},
		{named("no name"), tool.ParameterError}, {named(""), tool.ParameterError}, {named("a b:c"), tool.ParameterError},
	} {
		if got := code(r.Add(t.Context(), c.tool)); got != c.want {
			t.Errorf("%s: got %q, want %q", c.tool.Spec().Name, got, c.want)
		}
	}
	if diff := cmp.Diff([]string{"broken failed", "failing failed", "fine ready", "panicking failed", "useless disabled"}, list(r, "", "")); diff != "" {
		t.Errorf("list (-want +got)\n%s", diff)
	}
	_, err := r.Acquire("failing")
	if code(err) != tool.ToolDisabled || !strings.Contains(err.Error(), "no licence") {
		t.Errorf("got %v", err)
	}
	_, err = r.Acquire("useless")
	if code(err) != tool.ToolDisabled || !strings.Contains(err.Error(), "git is not installed") {
		t.Errorf("got %v", err)
	}
	failing.start = nil
	if err := r.Add(t.Context(), failing); err != nil {
		t.Errorf("the second time: %v", err)
	}
	if h := r.History("failing"); len(h) != 5 || h[2].To != registry.Unregistered {
		t.Errorf("history %+v", h)
	}
}

func TestRequirements(t *testing.T) {
	base, old := named("base"), named("old")
	base.spec.Version, old.spec.Version = "2.1.0", "0.9.0"
	needs := func(name, what, version string) *fake {
		f := named(name)
		f.spec.Requires = []tool.Requirement{{Tool: what, Version: version}}
		return f
	}
	r := with(t, base, old)
	for _, c := range []struct {
		tool *fake
		want tool.Code
	}{
		{needs("a", "base", ""), ""}, {needs("b", "base", ">=2.0 <3"), ""}, {needs("c", "base", "^1"), tool.DependencyError},
		{needs("d", "nothing", ""), tool.DependencyError}, {needs("e", "old", "~0.9"), ""}, {needs("f", "base", "two"), tool.ValidationError},
	} {
		if got := code(r.Add(t.Context(), c.tool)); got != c.want {
			t.Errorf("%s: got %q, want %q", c.tool.spec.Name, got, c.want)
		}
	}
	odd := named("odd")
	odd.spec.Version = "new"
	if got := code(r.Add(t.Context(), odd)); got != tool.ValidationError {
		t.Errorf("version %q: got %q", odd.spec.Version, got)
	}
	order := registry.New(registry.Config{})
	if failed := order.AddAll(t.Context(), []tool.Tool{needs("top", "middle", ""), needs("middle", "bottom", ""), named("bottom"), needs("lone", "none", "")}); len(failed) != 1 || failed["lone"] == nil {
		t.Errorf("failed %v", failed)
	}
}

func TestReplaceAndDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closed []string
		v := func(version string) *fake {
			f := named("x")
			f.spec.Version = version
			f.close = func(context.Context) error { closed = append(closed, version); return nil }
			return f
		}
		r := with(t, v("1.0.0"))
		h, err := r.Acquire("x")
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Replace(t.Context(), v("2.0.0")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if closed != nil {
			t.Errorf("closed %v while a call runs", closed)
		}
		h2, err := r.Acquire("x")
		if err != nil || h2.Spec.Version != "2.0.0" || h.Spec.Version != "1.0.0" {
			t.Fatalf("got version %s beside %s, %v", h2.Spec.Version, h.Spec.Version, err)
		}
		if got := r.Snapshot("", "")[0].InFlight; got != 2 {
			t.Errorf("%d in flight, want 2", got)
		}
		h.Release()
		h.Release()
		synctest.Wait()
		if diff := cmp.Diff([]string{"1.0.0"}, closed); diff != "" {
			t.Errorf("closed (-want +got)\n%s", diff)
		}
		broken := v("3.0.0")
		broken.start = func(context.Context) error { return errors.New("no") }
		if err := r.Replace(t.Context(), broken); err == nil {
			t.Error("a version that does not start was taken")
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Remove(short, "x"); code(err) != tool.TimeoutError || !strings.Contains(err.Error(), "1 of its calls") {
			t.Errorf("got %v", err)
		}
		if _, err := r.Acquire("x"); code(err) != tool.ToolNotFound {
			t.Errorf("a removed tool answers: %v", err)
		}
		h2.Release()
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]string{"1.0.0", "2.0.0"}, closed); diff != "" {
			t.Errorf("closed (-want +got)\n%s", diff)
		}
	})
}

// TestReplaceUnderLoad acquires while versions change: no call may hold a
// version that was closed before its release.
func TestReplaceUnderLoad(t *testing.T) {
	r := registry.New(registry.Config{})
	var mu sync.Mutex
	closed := map[string]bool{}
	v := func(i int) *fake {
		f := named("x")
		f.spec.Version = fmt.Sprintf("1.0.%d", i)
		f.close = func(context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			closed[f.spec.Version] = true
			return nil
		}
		return f
	}
	if err := r.Add(t.Context(), v(0)); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				h, err := r.Acquire("x")
				if err != nil {
					t.Error(err)
					return
				}
				r.Snapshot("", "")
				mu.Lock()
				if closed[h.Spec.Version] {
					t.Errorf("%s was closed while in use", h.Spec.Version)
				}
				mu.Unlock()
				h.Release()
			}
		})
	}
	for i := range 200 {
		if err := r.Replace(t.Context(), v(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	callers.Wait()
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(closed) != 201 {
		t.Errorf("%d versions closed, want 201", len(closed))
	}
}

func TestScopes(t *testing.T) {
	owned := func(full string, scope tool.Scope, tenant, project string) *fake {
		f := named(full)
		f.spec.Scope, f.tenant, f.projct = scope, tenant, project
		return f
	}
	r := with(t, named("read"), owned("s:a", tool.ScopeTenant, "t1", ""), owned("s:a", tool.ScopeTenant, "t2", "ignored"),
		owned("s:b", tool.ScopeProject, "t1", "p"), owned("s:c", tool.ScopeTenant, "", ""))
	for _, c := range []struct {
		tenant, project string
		want            []string
	}{
		{"", "", []string{"read ready", "s:c ready"}},
		{"t1", "", []string{"read ready", "s:a ready"}},
		{"t1", "p", []string{"read ready", "s:a ready", "s:b ready"}},
		{"t2", "p", []string{"read ready", "s:a ready"}},
	} {
		if diff := cmp.Diff(c.want, list(r, c.tenant, c.project)); diff != "" {
			t.Errorf("%s/%s (-want +got)\n%s", c.tenant, c.project, diff)
		}
	}
	if _, err := r.Acquire("s:a"); code(err) != tool.ToolNotFound {
		t.Errorf("a tenant's tool is everybody's: %v", err)
	}
	if _, err := r.AcquireFor("s__b", "t1", "q"); code(err) != tool.ToolNotFound {
		t.Errorf("a project's tool is another's: %v", err)
	}
	if h, err := r.AcquireFor("s__b", "t1", "p"); err != nil || h.Spec.Name != "b" {
		t.Errorf("got %v", err)
	}
	if err := r.Remove(t.Context(), registry.ID("s:a", "t1", "")); err != nil {
		t.Error(err)
	}
	if _, err := r.AcquireFor("s:a", "t2", ""); err != nil {
		t.Errorf("the other tenant's went too: %v", err)
	}
}

func TestFind(t *testing.T) {
	spec := func(s tool.Spec) *fake { return &fake{spec: s} }
	r := with(t,
		spec(tool.Spec{Name: "read", Category: "files", Effects: tool.Read, Description: "Reads a text file.", Tags: []string{"fs"}}),
		spec(tool.Spec{Name: "write", Category: "files", Effects: tool.Write, Description: "Writes a file."}),
		spec(tool.Spec{Name: "web_search", Category: "web", Effects: tool.Network, Description: "Searches the web for pages."}),
		spec(tool.Spec{Name: "read_pdf", Source: "toolbox", Category: "toolbox", Effects: tool.Read, Description: "Extracts the text of a PDF file.",
			Input: &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{"password": {Description: "to open it"}}}}),
	)
	if err := r.SetEnabled("write", false, ""); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		filter registry.Filter
		want   []string
	}{
		{"all", registry.Filter{}, []string{"read", "toolbox:read_pdf", "web_search", "write"}},
		{"category", registry.Filter{Category: "Files"}, []string{"read", "write"}},
		{"state", registry.Filter{State: registry.Disabled}, []string{"write"}},
		{"effect", registry.Filter{Effects: tool.Network}, []string{"web_search"}},
		{"tag", registry.Filter{Tag: "FS"}, []string{"read"}},
		{"source", registry.Filter{Source: "toolbox"}, []string{"toolbox:read_pdf"}},
		{"name", registry.Filter{Name: "toolbox__read_pdf"}, []string{"toolbox:read_pdf"}},
		{"both", registry.Filter{Category: "files", Effects: tool.Read}, []string{"read"}},
		{"nothing", registry.Filter{Name: "none"}, nil},
		{"text", registry.Filter{Text: "pdf text"}, []string{"toolbox:read_pdf", "read", "web_search"}},
		{"text, by an argument", registry.Filter{Text: "password"}, []string{"toolbox:read_pdf"}},
		{"text, the beginning of a word", registry.Filter{Text: "sear"}, []string{"web_search"}},
		{"text, the very name", registry.Filter{Text: "read"}, []string{"read", "toolbox:read_pdf"}},
	} {
		var got []string
		for _, e := range r.Find(c.filter) {
			got = append(got, e.Spec.FullName())
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", c.name, diff)
		}
	}
	if got := r.Search("file", 1); len(got) != 1 {
		t.Errorf("got %d", len(got))
	}
	for _, s := range r.Search("file", 0) {
		if s.Name == "write" {
			t.Error("a disabled tool was found")
		}
	}
	if e, ok := r.Lookup("Read", "", ""); !ok || e.Spec.Name != "read" {
		t.Errorf("lookup: %+v", e)
	}
}

func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failing atomic.Pointer[tool.Error]
		f := named("x")
		f.health = func(context.Context) error {
			if e := failing.Load(); e != nil {
				return e
			}
			return nil
		}
		r := with(t, f, named("plain"))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { r.RunHealth(ctx); close(done) }()
		state := func() string {
			synctest.Wait()
			e, _ := r.Lookup("x", "", "")
			return fmt.Sprintf("%s %s %d", e.State, e.Health.Status, e.Health.Failures)
		}
		expect := func(want string) {
			t.Helper()
			if got := state(); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		expect("ready healthy 0")
		failing.Store(tool.Errorf(tool.ConnectionError, "no server").WithDetail("port", 1))
		for _, want := range []string{"ready unhealthy 1", "ready unhealthy 2", "error unhealthy 3", "error unhealthy 4"} {
			time.Sleep(time.Minute)
			expect(want)
		}
		if e, _ := r.Lookup("x", "", ""); e.Cause != "health: no server" || e.Health.Details["port"] != 1 {
			t.Errorf("cause %q, details %v", e.Cause, e.Health.Details)
		}
		failing.Store(nil)
		time.Sleep(time.Minute)
		expect("ready healthy 0")
		cancel()
		<-done
		if h := r.CheckHealth(t.Context(), "none"); h.Status != registry.Missing {
			t.Errorf("got %+v", h)
		}
		f.health = func(context.Context) error { panic("oh") }
		if h := r.CheckHealth(t.Context(), "x"); h.Status != registry.Unknown || !strings.Contains(h.Message, "oh") {
			t.Errorf("got %+v", h)
		}
		f.health = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		if h := r.CheckHealth(t.Context(), "x"); h.Status != registry.Unknown || !strings.Contains(h.Message, "10s") {
			t.Errorf("got %+v", h)
		}
		if err := r.SetEnabled("x", false, "by hand"); err != nil {
			t.Fatal(err)
		}
		if h := r.CheckHealth(t.Context(), "x"); h.Status != registry.Unknown || !strings.Contains(h.Message, "by hand") {
			t.Errorf("got %+v", h)
		}
	})
}

// script is a source whose list a test sets.
type script struct {
	name    string
	changes chan struct{}

	mu    sync.Mutex
	tools []tool.Tool
	err   error
}

func (s *script) set(err error, tools ...tool.Tool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.tools = err, tools
}

func (s *script) Name() string { return s.name }
func (s *script) List(context.Context) ([]tool.Tool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil && s.err.Error() == "panic" {
		panic(s.err)
	}
	return s.tools, s.err
}
func (s *script) Changes() <-chan struct{} { return s.changes }

func TestComposite(t *testing.T) {
	r := registry.New(registry.Config{})
	var reports []registry.Report
	c := registry.NewComposite(r, func(rep registry.Report) { reports = append(reports, rep) })
	own, dup := named("read"), named("read")
	a := &script{name: "a", tools: []tool.Tool{own, named("x")}}
	bad := named("bad")
	bad.spec.Input = &jsonschema.Schema{Ref: "#nowhere"}
	b := &script{name: "b", tools: []tool.Tool{dup, bad, named("b:y")}}
	other := &script{name: "other", tools: []tool.Tool{named("b:y")}}
	c.Add(a)
	c.Add(b)
	c.Add(other)
	c.Sync(t.Context())
	check := func(want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, list(r, "", "")); diff != "" {
			t.Errorf("list (-want +got)\n%s", diff)
		}
	}
	check("b:read ready", "b:y ready", "bad failed", "other:y ready", "read ready", "x ready")
	if diff := cmp.Diff(map[string]string{"read": "b:read"}, reports[1].Renamed); diff != "" || reports[1].Failed["bad"] == nil {
		t.Errorf("report (-want +got)\n%s%v", diff, reports[1].Failed)
	}
	h, err := r.Acquire("b:read")
	if err != nil || h.Tool != tool.Tool(dup) || h.Spec.FullName() != "b:read" {
		t.Fatalf("the clashing tool: %v", err)
	}
	h.Release()

	a.err = errors.New("down")
	a.tools = nil
	b.tools = []tool.Tool{dup, named("b:y"), named("b:z")} // y is another value, bad is gone
	got := c.Sync(t.Context())
	if got[0].Err == nil || !strings.Contains(got[0].Err.Error(), "down") {
		t.Errorf("report %+v", got[0])
	}
	want := registry.Report{Source: "b", Added: []string{"b:z"}, Replaced: []string{"b:y"}, Removed: []string{"bad"},
		Failed: map[string]error{}, Renamed: map[string]string{}}
	if diff := cmp.Diff(want, got[1]); diff != "" {
		t.Errorf("report (-want +got)\n%s", diff)
	}
	if got[2].Changed() {
		t.Errorf("other changed: %+v", got[2])
	}
	check("b:read ready", "b:y ready", "b:z ready", "other:y ready", "read ready", "x ready")
	a.err = errors.New("panic")
	if got := c.Sync(t.Context()); got[0].Err == nil {
		t.Error("a source that panics is no failure")
	}
	if err := c.Remove(t.Context(), "b"); err != nil {
		t.Error(err)
	}
	check("other:y ready", "read ready", "x ready")
	if err := c.Remove(t.Context(), "b"); err == nil {
		t.Error("removed twice")
	}
}

func TestCompositeRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := registry.New(registry.Config{})
		c := registry.NewComposite(r, nil)
		s := &script{name: "s", err: errors.New("down"), changes: make(chan struct{}, 1)}
		c.Add(s)
		c.Add(registry.Static("fixed", []tool.Tool{named("read")}))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { c.Run(ctx); close(done) }()
		synctest.Wait()
		if got := list(r, "", ""); !slices.Equal(got, []string{"read ready"}) {
			t.Errorf("got %v", got)
		}
		s.set(nil, named("s:a"))
		time.Sleep(time.Second + 1) // the first retry
		synctest.Wait()
		if got := list(r, "", ""); len(got) != 2 {
			t.Errorf("after the retry %v", got)
		}
		s.set(nil)
		s.changes <- struct{}{}
		synctest.Wait()
		if got := list(r, "", ""); len(got) != 1 {
			t.Errorf("after the change %v", got)
		}
		close(s.changes)
		synctest.Wait()
		cancel()
		<-done
	})
}

func BenchmarkAcquire(b *testing.B) {
	r := registry.New(registry.Config{})
	for i := range 300 {
		if err := r.Add(b.Context(), named(fmt.Sprintf("s:tool%d", i))); err != nil {
			b.Fatal(err)
		}
	}
	if err := r.Add(b.Context(), named("read")); err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"read", "Read", "s__tool7"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				h, err := r.Acquire(name)
				if err != nil {
					b.Fatal(err)
				}
				h.Release()
			}
		})
	}
	b.Run("snapshot-301", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r.Snapshot("t", "p")
		}
	})
	b.Run("search-301", func(b *testing.B) {
		for b.Loop() {
			r.Search("tool file", 10)
		}
	})
}

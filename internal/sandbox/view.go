package sandbox

// Place is one thing of this machine that a command finds, or does not find
// although something above it is granted.
type Place struct {
	// Path is where the command finds it; Source where it lies on this machine, if
	// that is elsewhere.
	Path   string `json:"path"`
	Source string `json:"source,omitempty"`
	// Access is "read", "write", "protected" or "hidden".
	Access string `json:"access"`
}

// The values of a Place's Access.
const (
	AccessRead      = "read"
	AccessWrite     = "write"
	AccessProtected = "protected" // read-only inside of what can be written
	AccessHidden    = "hidden"
)

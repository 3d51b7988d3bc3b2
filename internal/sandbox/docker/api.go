package docker

// The parts of the API's types that are used, in the daemon's names.
// https://docs.docker.com/reference/api/engine/version/v1.41/

type createRequest struct {
	Image       string
	User        string
	Hostname    string
	WorkingDir  string
	Entrypoint  []string
	Cmd         []string
	Env         []string
	Labels      map[string]string
	Tty         bool
	OpenStdin   bool
	StdinOnce   bool
	AttachStdin bool
	Healthcheck healthcheck
	HostConfig  hostConfig
}

type healthcheck struct{ Test []string }

type hostConfig struct {
	NetworkMode    string
	IpcMode        string
	CgroupnsMode   string
	UsernsMode     string
	ReadonlyRootfs bool
	CapDrop        []string
	SecurityOpt    []string
	Mounts         []mount
	Tmpfs          map[string]string
	MaskedPaths    []string
	ShmSize        int64 `json:",omitempty"`
	Memory         int64 `json:",omitempty"`
	MemorySwap     int64 `json:",omitempty"`
	PidsLimit      int64 `json:",omitempty"`
	NanoCpus       int64 `json:",omitempty"`
	Ulimits        []ulimit
	LogConfig      logConfig
	ConsoleSize    *[2]uint16 `json:",omitempty"`
	OomScoreAdj    int
}

type mount struct {
	Type        string
	Source      string
	Target      string
	ReadOnly    bool
	BindOptions bindOptions
}

type bindOptions struct {
	Propagation  string
	NonRecursive bool
}

type ulimit struct {
	Name       string
	Soft, Hard int64
}

type logConfig struct{ Type string }

type created struct {
	ID       string `json:"Id"`
	Warnings []string
}

type inspected struct {
	State struct {
		Running   bool
		OOMKilled bool
		ExitCode  int
		Pid       int
		Error     string
	}
}

type waited struct {
	StatusCode int
	Error      *struct{ Message string }
}

type listed struct {
	ID     string `json:"Id"`
	Labels map[string]string
}

type information struct {
	MemoryLimit     bool
	SwapLimit       bool
	PidsLimit       bool
	CpuCfsQuota     bool `json:"CpuCfsQuota"`
	NCPU            int
	CgroupVersion   string
	CgroupDriver    string
	SecurityOptions []string
	ServerVersion   string
	OSType          string
	Architecture    string
	DefaultRuntime  string
}

type imageInspected struct {
	Config struct {
		Volumes map[string]struct{}
	}
}

type statistics struct {
	CPU struct {
		Usage struct {
			Total int64 `json:"total_usage"`
		} `json:"cpu_usage"`
	} `json:"cpu_stats"`
	Memory struct {
		Usage   int64            `json:"usage"`
		Max     int64            `json:"max_usage"` // cgroup version 1 only
		Failed  int64            `json:"failcnt"`
		Details map[string]int64 `json:"stats"`
	} `json:"memory_stats"`
	PIDs struct {
		Current int64  `json:"current"`
		Limit   uint64 `json:"limit"`
	} `json:"pids_stats"`
}

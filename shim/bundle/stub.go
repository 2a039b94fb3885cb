package bundle

type Kind int

const (
	Sandbox Kind = iota
	Container
	Lone
)

type Pod struct{ Kind Kind }

type Bundle struct{}

func Load(dir string) (*Bundle, error) { return &Bundle{}, nil }
func (b *Bundle) Pod() (Pod, error)    { return Pod{}, nil }

func SandboxID(a map[string]string) (string, bool) {
	s, ok := a["io.kubernetes.cri.sandbox-id"]
	return s, ok
}

package garbage

import "testing"

func TestPercent(t *testing.T) {
	for _, tt := range []struct {
		name string
		live uint64
		want int
	}{
		{"next to nothing", 1 << 20, most}, {"little", 4 << 20, 150}, {"some", 4500 << 10, 127},
		{"half", small / 2, usual}, {"much", 200 << 20, usual},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := percentFor(tt.live); got != tt.want {
				t.Errorf("%d bytes: %d %%, want %d", tt.live, got, tt.want)
			}
		})
	}
}

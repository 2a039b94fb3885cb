package plan

func ParseURL(s string) (URL, error) { return URL{raw: s}, nil }

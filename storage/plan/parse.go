// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strconv"
)

const podAnnotations = "the pod's annotations"

// Parse reads what a pod asks for from its annotations. A pod without any of
// ours gives an empty plan, whose Asks is false. All mistakes of a pod come
// together in one *Error, which is errdefs.ErrInvalidArgument.
//
// Parse knows nothing of the node: see CheckHostPaths.
func Parse(annotations map[string]string) (*Plan, error) {
	var found findings
	w := splitKeys(annotations, &found)
	p, service := parsePod(w.pod, &found)
	b := builder{plan: p, found: &found}
	for _, name := range w.mountNames() {
		m := parseMount(name, w.mounts[name], p, service, &found)
		b.addMount(m)
	}
	b.finish()
	if err := found.err(podAnnotations, nil); err != nil {
		return nil, err
	}
	return p, nil
}

// podDefaults are values of the pod that a mount may override.
type podDefaults struct {
	secret  string
	service serviceWish
}

func parsePod(pod map[string]string, found *findings) (*Plan, podDefaults) {
	p := &Plan{Volume: DefaultVolume, MountPath: DefaultMountPath}
	if v := pod["volume"]; v != "" {
		p.Volume = v
		found.fault(Prefix+"volume", checkLabel(v, "a volume"))
	}
	if v := pod["mount-path"]; v != "" {
		found.fault(Prefix+"mount-path", checkMountPath(v))
		p.MountPath = cleanAbsolute(v)
	}
	var err *fault
	p.Writable, err = parseBool(pod["writable"])
	found.fault(Prefix+"writable", err)
	p.MaxBytes, err = parseSize(pod["max-bytes"])
	found.fault(Prefix+"max-bytes", err)
	p.Containers = parseContainers(pod["containers"], found)

	defaults := podDefaults{secret: pod["secret"]}
	if defaults.secret != "" {
		found.fault(Prefix+"secret", checkLabel(defaults.secret, "a volume"))
	}
	defaults.service = parseService(pod, Prefix, found)
	return p, defaults
}

func parseContainers(value string, found *findings) []string {
	names := splitList(value)
	for _, name := range names {
		found.fault(Prefix+"containers", checkLabel(name, "a container"))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// checkLabel refuses what Kubernetes wouldn't take as a name: such names
// become part of paths on the node.
func checkLabel(value, what string) *fault {
	if label.matches(value) {
		return nil
	}
	shown := "an empty text"
	if value != "" {
		shown = show(value)
	}
	return faultf("names have lower-case letters, digits and -, at most 63", "%s can't name %s", shown, what)
}

// serviceWish is what one level, the pod or a mount, says about S3.
type serviceWish struct {
	endpoint   string
	scheme     *bool // insecure, by the scheme written in endpoint
	usehttps   *bool // insecure, by s3-usehttps
	region     string
	addressing string
}

func parseService(values map[string]string, prefix string, found *findings) serviceWish {
	var s serviceWish
	var err *fault
	if v := values["s3-endpoint"]; v != "" {
		s.endpoint, s.scheme, err = parseEndpoint(v)
		found.fault(prefix+"s3-endpoint", err)
	}
	if v := values["s3-usehttps"]; v != "" {
		_, err = oneOf(v, "1", "0")
		found.fault(prefix+"s3-usehttps", err)
		insecure := v == "0"
		s.usehttps = &insecure
	}
	if s.scheme != nil && s.usehttps != nil && *s.scheme != *s.usehttps {
		found.add(prefix+"s3-usehttps", "leave one of them out", "%s contradicts the scheme of s3-endpoint", strconv.Quote(values["s3-usehttps"]))
	}
	if v := values["s3-region"]; v != "" {
		s.region = v
		found.fault(prefix+"s3-region", checkRegion(v))
	}
	if v := values["s3-addressing"]; v != "" {
		s.addressing, err = oneOf(v, "auto", "path", "virtual")
		found.fault(prefix+"s3-addressing", err)
	}
	return s
}

// over lays a mount's wishes over the pod's. A scheme belongs to the endpoint
// that it was written with.
func (s serviceWish) over(pod serviceWish) S3 {
	out := S3{Endpoint: s.endpoint, Region: s.region, Addressing: s.addressing, Insecure: s.usehttps}
	scheme := s.scheme
	if out.Endpoint == "" {
		out.Endpoint, scheme = pod.endpoint, pod.scheme
	}
	if out.Insecure == nil {
		out.Insecure = pod.usehttps
	}
	if scheme != nil {
		out.Insecure = scheme
	}
	if out.Region == "" {
		out.Region = pod.region
	}
	if out.Addressing == "" {
		out.Addressing = pod.addressing
	}
	return out
}

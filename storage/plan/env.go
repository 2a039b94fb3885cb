// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"
)

// maxVariable is the longest "NAME=VALUE" that Linux hands to a program
// (execve(2), MAX_ARG_STRLEN: 32 pages of 4 KiB), its final NUL included.
const maxVariable = 128 << 10

// A variable is set in every container of the pod, also in a sidecar that
// somebody else injected and that runs with other rights. Its value is a path
// or a URL that the pod's author chose. So no name is allowed by which a
// program would load code or configuration from a path, run a command, send
// its traffic or its credentials elsewhere, or trust other certificates.
// Names are compared in upper case.
var (
	forbiddenPrefixes = []string{
		// Loaders and the C library.
		"LD_", "DYLD_", "GLIBC_", "RESOLV_", "NLS", "MALLOC_", "ASAN_", "LSAN_", "TSAN_", "UBSAN_", "MSAN_",
		// Shells and what they run.
		"BASH", "ZSH", "KSH_", "XDG_", "LESS", "SUDO_", "SYSTEMD_", "LISTEN_",
		// Language runtimes and their package managers.
		"PYTHON", "PIP_", "UV_", "CONDA_", "VIRTUAL_ENV", "IPYTHON", "JUPYTER_", "GUNICORN_", "UWSGI_", "WERKZEUG_", "FLASK_", "DJANGO_", "NUMBA_",
		"PERL", "RUBY", "GEM_", "BUNDLE", "NODE_", "NPM_", "YARN_", "DENO_", "BUN_", "JAVA_", "_JAVA_", "JDK_", "JRE_", "JVM_", "CATALINA_", "MAVEN_", "GRADLE_",
		"DOTNET_", "CORECLR_", "COMPLUS_", "COR_", "MONO_", "MSBUILD", "NUGET_", "PHP", "LUA_", "LUA5", "R_", "JULIA_", "ERL_", "ELIXIR_", "TCL", "CARGO_", "RUSTC", "RUSTUP_", "GUILE_",
		// Libraries that load plug-ins by a variable.
		"CUDA_INJECTION", "NVTX_", "NVIDIA_", "NCCL_", "OCL_", "OPENCL_", "VK_", "LIBGL_", "LIBVA_", "__EGL_", "__GLX_", "EGL_", "GBM_", "GTK_", "QT_", "GST_", "GIO_",
		"OMPI_", "PMIX_", "UCX_", "I_MPI_", "HADOOP_", "SPARK_", "MAGICK_", "OPENSSL_", "SASL_", "KRB5_", "ODBC", "TORCH_EXTENSIONS", "TRITON_CACHE", "TRITON_PTXAS",
		// Tools, traffic, trust and identity.
		"GIT_", "SSH_", "RSYNC_", "CURL_", "WGET", "SSL_", "REQUESTS_", "KUBE", "DOCKER_", "CONTAINERD_", "AWS_", "BOTO", "AZURE_", "GOOGLE_", "GCLOUD_", "CLOUDSDK_", "GCE_",
		"VAULT_", "OTEL_", "ISTIO_", "ENVOY_", "LINKERD", "PROXY_", "DAPR_", "NIX_", "CMAKE_", "GDB",
	}
	forbiddenNames = []string{
		"_", "ENV", "IFS", "CDPATH", "PS0", "PS1", "PS2", "PS3", "PS4", "SHELL", "SHELLOPTS", "PROMPT_COMMAND", "ZDOTDIR", "FPATH", "FCEDIT",
		"EDITOR", "VISUAL", "PAGER", "MANPAGER", "BROWSER", "HOME", "USER", "LOGNAME", "PWD", "OLDPWD", "HOSTNAME", "TERM", "TERMINFO", "TERMINFO_DIRS", "TERMCAP",
		"PATH", "MANPATH", "INFOPATH", "CLASSPATH", "TMPDIR", "TMP", "TEMP", "TEMPDIR",
		"GCONV_PATH", "GETCONF_DIR", "LOCPATH", "LOCALDOMAIN", "RES_OPTIONS", "HOSTALIASES", "TZ", "TZDIR", "NOTIFY_SOCKET",
		"GODEBUG", "GOFLAGS", "GOROOT", "GOPATH", "GOENV", "GOPROXY", "GOTOOLCHAIN", "GOCOVERDIR", "RUSTFLAGS",
		"OMP_TOOL_LIBRARIES", "LIBOMPTARGET_PLUGIN", "MPLCONFIGDIR", "AWKPATH", "AWKLIBPATH", "TAR_OPTIONS", "GZIP", "XZ_OPT", "MAKEFLAGS", "MAKEFILES", "CC", "CXX",
		"PGSERVICEFILE", "PGSYSCONFDIR", "PGPASSFILE", "PGSSLROOTCERT", "MYSQL_HOME", "NETRC", "HF_ENDPOINT", "HF_TOKEN_PATH", "HF_MODULES_CACHE", "VIMINIT", "EXINIT",
	}
	forbiddenSuffixes = []string{
		"_PROXY", "_PRELOAD", "_OPTIONS", "_OPTS", "_STARTUP_HOOKS", "_CA_BUNDLE", "_CA_CERTS", "_SSL_CAINFO",
	}
)

// checkVariable says why a name can't be set in every container.
func checkVariable(name string) *fault {
	if !variableName.matches(name) {
		return faultf("letters, digits and _ make a name, which doesn't begin with a digit", "%s can't name a variable", show(name))
	}
	upper := strings.ToUpper(name)
	hasPrefix := func(p string) bool { return strings.HasPrefix(upper, p) }
	hasSuffix := func(s string) bool { return strings.HasSuffix(upper, s) }
	if slices.Contains(forbiddenNames, upper) || slices.ContainsFunc(forbiddenPrefixes, hasPrefix) || slices.ContainsFunc(forbiddenSuffixes, hasSuffix) {
		return faultf("choose a name of your own, like MODEL_URL", "the variable %s may not be set: it changes what other programs of the pod load, run or trust", name)
	}
	return nil
}

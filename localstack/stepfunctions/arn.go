package stepfunctions

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

var accountPattern = regexp.MustCompile(`^[0-9]{12}$`)

const maxNameLength = 80

// forbiddenInNames are the characters that AWS refuses in names, beside white
// space and control characters.
const forbiddenInNames = `<>{}[]?*"#%\^|~` + "`" + `$&,;:/`

// checkName applies AWS's rules to the name of a machine or an execution.
func checkName(name string) error {
	if err := checkLength("name", name, 1, maxNameLength); err != nil {
		return err
	}
	if !utf8.ValidString(name) || strings.ContainsFunc(name, forbiddenRune) {
		return apiError(codeInvalidName, "Invalid Name: '%s'", name)
	}
	return nil
}

func forbiddenRune(r rune) bool {
	return r <= 0x20 || r >= 0x7f && r <= 0x9f || r == 0xfffe || r == 0xffff || strings.ContainsRune(forbiddenInNames, r)
}

func (r *Runner) arn(kind, rest string) string {
	return "arn:aws:states:" + r.options.Region + ":" + r.options.Account + ":" + kind + ":" + rest
}

func (r *Runner) machineARN(name string) string { return r.arn("stateMachine", name) }

func (r *Runner) executionARN(machine, name string) string {
	return r.arn("execution", machine+":"+name)
}

// checkARN refuses what is not an ARN at all; whether it names something is
// the caller's look-up.
func checkARN(field, arn string) error {
	const maxARN = 256
	if err := checkLength(field, arn, 1, maxARN); err != nil {
		return err
	}
	if !strings.HasPrefix(arn, "arn:") {
		return apiError(codeInvalidARN, "Invalid Arn: 'Invalid ARN prefix: %s'", arn)
	}
	return nil
}

package canonjson

import (
	"strconv"
	"strings"
)

// survives reports whether the JSON number s still has the same value after a
// trip through a double, which is what RFC 8785 writes down. Minus zero becomes
// zero there, so it does not.
func survives(s string) bool {
	if len(s) <= 15 && s[0] != '-' && !strings.ContainsAny(s, ".eE") {
		return true // a double holds every integer of 15 digits
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return false // beyond the largest double
	}
	if strings.HasPrefix(s, "-") && f == 0 {
		return false // minus zero, or too small for any double
	}
	before, ok := parseDecimal(s)
	if !ok {
		return false
	}
	after, ok := parseDecimal(strconv.FormatFloat(f, 'e', -1, 64))
	return ok && before == after
}

// decimal is digits * 10^exponent with neither leading nor trailing zeros in
// digits: equal values are equal structs, however long their exponents are.
type decimal struct {
	negative bool
	digits   string
	exponent int
}

func parseDecimal(s string) (decimal, bool) {
	rest, negative := strings.CutPrefix(s, "-")
	exponent := 0
	if i := strings.IndexAny(rest, "eE"); i >= 0 {
		n, err := strconv.Atoi(rest[i+1:])
		if err != nil {
			// Only a zero could have such an exponent and be a double.
			return decimal{}, strings.Trim(rest[:i], "0.") == ""
		}
		rest, exponent = rest[:i], n
	}
	whole, fraction, _ := strings.Cut(rest, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	exponent -= len(fraction)
	short := strings.TrimRight(digits, "0")
	if short == "" {
		return decimal{}, true
	}
	return decimal{negative, short, exponent + len(digits) - len(short)}, true
}

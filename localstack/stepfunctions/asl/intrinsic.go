package asl

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Call is an intrinsic function with its arguments.
type Call struct {
	Function string
	Args     []Argument
	text     string
}

// Argument of an intrinsic function: a literal (string, number, boolean or
// null), a path or a nested call; Path and Call are nil for a literal. Quoted
// is a string literal with its backslashes, which States.Format reads.
type Argument struct {
	Literal any
	Quoted  string
	Path    *Path
	Call    *Call
}

// String returns the call as it was written.
func (c Call) String() string { return c.text }

// arity bounds the number of arguments; most below zero means any number.
type arity struct{ least, most int }

// intrinsics are the functions that the runner knows, with the least and the
// greatest number of arguments. Others are refused when a machine is created, such as
// States.JsonToString and States.Hash (their text depends on the order of members),
// and States.MathRandom (its seeded sequence is AWS's own).
var intrinsics = map[string]arity{
	"States.Array":          {0, -1},
	"States.ArrayContains":  {2, 2},
	"States.ArrayGetItem":   {2, 2},
	"States.ArrayLength":    {1, 1},
	"States.ArrayPartition": {2, 2},
	"States.ArrayRange":     {3, 3},
	"States.Base64Decode":   {1, 1},
	"States.Base64Encode":   {1, 1},
	"States.Format":         {1, -1},
	"States.JsonMerge":      {3, 3},
	"States.MathAdd":        {2, 2},
	"States.StringSplit":    {2, 2},
	"States.StringToJson":   {1, 1},
	"States.UUID":           {0, 0},
}

// Intrinsics returns the names of the intrinsic functions that ParseCall accepts.
func Intrinsics() []string {
	names := make([]string, 0, len(intrinsics))
	for name := range intrinsics {
		names = append(names, name)
	}
	return names
}

var (
	errIntrinsicUnknown = errors.New("the intrinsic function is not supported")
	errIntrinsicSyntax  = errors.New("not an intrinsic function call")
	errIntrinsicArgs    = errors.New("wrong number of arguments")
	errIntrinsicDepth   = errors.New("more than 10 nested intrinsic functions")
)

const maxNesting = 10

// ParseCall reads an intrinsic function such as States.MathAdd($.n, 1).
func ParseCall(text string) (Call, error) {
	p := &callParser{text: text}
	call, err := p.call(1)
	if err == nil && p.skipSpace() < len(p.text) {
		err = fmt.Errorf("%w: %q has text after its end", errIntrinsicSyntax, text)
	}
	if err != nil {
		return Call{}, err
	}
	return call, nil
}

type callParser struct {
	text string
	at   int
}

var (
	functionName  = regexp.MustCompile(`^States\.[A-Za-z0-9]+`)
	numberLiteral = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?`)
	wordLiteral   = regexp.MustCompile(`^(true|false|null)\b`)
)

func (p *callParser) call(level int) (Call, error) {
	if level > maxNesting {
		return Call{}, fmt.Errorf("%w: %q", errIntrinsicDepth, p.text)
	}
	start := p.skipSpace()
	name := functionName.FindString(p.text[start:])
	if name == "" {
		return Call{}, p.syntax("a function name")
	}
	p.at += len(name)
	if !p.take('(') {
		return Call{}, p.syntax("(")
	}
	bounds, known := intrinsics[name]
	if !known {
		return Call{}, fmt.Errorf("%w: %s", errIntrinsicUnknown, name)
	}
	var args []Argument
	for !p.take(')') {
		if len(args) > 0 && !p.take(',') {
			return Call{}, p.syntax(", or )")
		}
		argument, err := p.argument(level)
		if err != nil {
			return Call{}, err
		}
		args = append(args, argument)
	}
	if len(args) < bounds.least || bounds.most >= 0 && len(args) > bounds.most {
		return Call{}, fmt.Errorf("%w: %s has %d", errIntrinsicArgs, name, len(args))
	}
	return Call{Function: name, Args: args, text: p.text[start:p.at]}, nil
}

func (p *callParser) argument(level int) (Argument, error) {
	rest := p.text[p.skipSpace():]
	switch {
	case strings.HasPrefix(rest, "'"):
		text, quoted, err := p.quoted()
		return Argument{Literal: text, Quoted: quoted}, err
	case strings.HasPrefix(rest, "$"):
		path, err := ParsePath(p.pathText())
		return Argument{Path: &path}, err
	case strings.HasPrefix(rest, "States."):
		call, err := p.call(level + 1)
		return Argument{Call: &call}, err
	}
	if word := wordLiteral.FindString(rest); word != "" {
		p.at += len(word)
		return Argument{Literal: map[string]any{"true": true, "false": false, "null": nil}[word]}, nil
	}
	if number := numberLiteral.FindString(rest); number != "" {
		p.at += len(number)
		return Argument{Literal: json.Number(number)}, nil
	}
	return Argument{}, p.syntax("an argument")
}

// quoted reads 'text', in which \' \\ \{ and \} stand for the character after
// the backslash. The second result keeps the backslashes.
func (p *callParser) quoted() (plain, raw string, err error) {
	var out strings.Builder
	start := p.at + 1
	for i := start; i < len(p.text); i++ {
		switch c := p.text[i]; c {
		case '\'':
			p.at = i + 1
			return out.String(), p.text[start:i], nil
		case '\\':
			if i+1 == len(p.text) || !strings.ContainsRune(`'\{}`, rune(p.text[i+1])) {
				return "", "", p.syntax(`one of ' \ { } after a backslash`)
			}
			i++
			out.WriteByte(p.text[i])
		default:
			out.WriteByte(c)
		}
	}
	return "", "", p.syntax("a closing quote")
}

// pathText takes a path up to the comma or parenthesis that ends the argument;
// brackets and quotes inside the path may hold either.
func (p *callParser) pathText() string {
	start, depth := p.at, 0
	quote := byte(0)
	for ; p.at < len(p.text); p.at++ {
		c := p.text[p.at]
		switch {
		case quote != 0:
			switch c {
			case '\\':
				p.at++
			case quote:
				quote = 0
			}
		case depth > 0 && (c == '\'' || c == '"'):
			quote = c
		case c == '[':
			depth++
		case c == ']':
			depth--
		case depth == 0 && (c == ',' || c == ')'):
			return strings.TrimSpace(p.text[start:p.at])
		}
	}
	return strings.TrimSpace(p.text[start:min(p.at, len(p.text))])
}

func (p *callParser) skipSpace() int {
	for p.at < len(p.text) && p.text[p.at] == ' ' {
		p.at++
	}
	return p.at
}

func (p *callParser) take(c byte) bool {
	if p.skipSpace() < len(p.text) && p.text[p.at] == c {
		p.at++
		return true
	}
	return false
}

func (p *callParser) syntax(wanted string) error {
	return fmt.Errorf("%w: %q wants %s at position %d", errIntrinsicSyntax, p.text, wanted, p.at)
}

package asl

// OperandKind is the type of value that a comparison compares or asks for.
type OperandKind int

// The kinds of operands. Null and Present only occur with Is.
const (
	String OperandKind = iota + 1
	Numeric
	Boolean
	Timestamp
	Null
	Present
)

// Order is the relation that a comparison asks for.
type Order int

// The relations. Matches is for strings with *; Is asks for the kind.
const (
	Equals Order = iota + 1
	LessThan
	LessThanEquals
	GreaterThan
	GreaterThanEquals
	Matches
	Is
)

// operations are the comparison operators by their field names. Each but
// StringMatches and the Is… tests also has a form that ends in Path.
var operations = map[string]Operation{
	"StringEquals":               {String, Equals},
	"StringLessThan":             {String, LessThan},
	"StringLessThanEquals":       {String, LessThanEquals},
	"StringGreaterThan":          {String, GreaterThan},
	"StringGreaterThanEquals":    {String, GreaterThanEquals},
	"StringMatches":              {String, Matches},
	"NumericEquals":              {Numeric, Equals},
	"NumericLessThan":            {Numeric, LessThan},
	"NumericLessThanEquals":      {Numeric, LessThanEquals},
	"NumericGreaterThan":         {Numeric, GreaterThan},
	"NumericGreaterThanEquals":   {Numeric, GreaterThanEquals},
	"BooleanEquals":              {Boolean, Equals},
	"TimestampEquals":            {Timestamp, Equals},
	"TimestampLessThan":          {Timestamp, LessThan},
	"TimestampLessThanEquals":    {Timestamp, LessThanEquals},
	"TimestampGreaterThan":       {Timestamp, GreaterThan},
	"TimestampGreaterThanEquals": {Timestamp, GreaterThanEquals},
	"IsString":                   {String, Is},
	"IsNumeric":                  {Numeric, Is},
	"IsBoolean":                  {Boolean, Is},
	"IsTimestamp":                {Timestamp, Is},
	"IsNull":                     {Null, Is},
	"IsPresent":                  {Present, Is},
}

// hasPathForm tells whether the operator can compare with the value at a path.
func (o Operation) hasPathForm() bool { return o.Order != Is && o.Order != Matches }

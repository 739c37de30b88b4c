package billing

import (
	"fmt"
	"hash/fnv"
	"strings"
)

// Order is a made-up order: the same id always gives the same order.
type Order struct {
	OrderID    string `json:"order_id"`
	AccountID  string `json:"account_id"`
	TotalCents int64  `json:"total_cents"`
	Status     string `json:"status"`
}

// orderByID derives an order from its id; ids that start with "missing" are 404.
func orderByID(id string) (Order, error) {
	if err := checkID("order id", id); err != nil {
		return Order{}, err
	}
	if strings.HasPrefix(id, "missing") {
		return Order{}, notFound("no such order")
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(id)) // a hash never fails to be written to
	n := h.Sum32()
	statuses := []string{"paid", "shipped", "delivered", "returned"}
	return Order{
		OrderID:    id,
		AccountID:  fmt.Sprintf("A%d", n%1000),
		TotalCents: 500 + int64(n%20000),
		Status:     statuses[int(n/1000)%len(statuses)],
	}, nil
}

package billing

import (
	"encoding/json"
	"net/http"
)

func (s *server) signIn(w http.ResponseWriter, r *http.Request) (call, error) {
	var req SessionRequest
	if err := decode(w, r, &req); err != nil {
		return call{}, err
	}
	if err := checkID("client_id", req.ClientID); err != nil {
		return call{}, err
	}
	header := r.Header.Get(HeaderAccount)
	if req.AccountID == "" {
		req.AccountID = header
	}
	if header != "" && header != req.AccountID {
		return call{}, badRequest("header and body name different accounts")
	}
	if req.AccountID != "" {
		if err := checkID("account_id", req.AccountID); err != nil {
			return call{}, err
		}
	}
	return call{op: OpSession, account: req.AccountID, run: func() (reply, error) {
		return replyJSON(http.StatusOK, s.sessions.issue(req.ClientID))
	}}, nil
}

func (s *server) getOrder(_ http.ResponseWriter, r *http.Request) (call, error) {
	if _, err := query(r); err != nil {
		return call{}, err
	}
	order, err := orderByID(r.PathValue("id"))
	if err != nil {
		return call{}, err
	}
	return call{op: OpOrder, account: order.AccountID, run: func() (reply, error) {
		return replyJSON(http.StatusOK, order)
	}}, nil
}

func (s *server) postCredit(w http.ResponseWriter, r *http.Request) (call, error) {
	var req CreditRequest
	key, err := idempotencyKey(r)
	if err == nil {
		err = decode(w, r, &req)
	}
	if err == nil {
		err = checkID("account_id", req.AccountID)
	}
	return call{op: OpCredit, account: req.AccountID, key: key, run: func() (reply, error) {
		return stored(http.StatusCreated)(s.store.credit(key, req))
	}}, err
}

func (s *server) getCredits(_ http.ResponseWriter, r *http.Request) (call, error) {
	name, value, err := oneOf(r, "key", "account_id")
	if err != nil {
		return call{}, err
	}
	if name == "account_id" {
		return call{op: OpLookup, account: value, run: func() (reply, error) {
			return listed(s.store.creditsOf(value))
		}}, checkID(name, value)
	}
	return call{op: OpLookup, key: value, run: func() (reply, error) {
		return listed(byKey[Credit](s.store, OpCredit, value))
	}}, checkKey(value)
}

// lookup answers what a key stands for as a list: nothing, or what op made.
func lookup[T any](s *store, op Operation) parse {
	return func(_ http.ResponseWriter, r *http.Request) (call, error) {
		values, err := query(r, "key")
		if err != nil {
			return call{}, err
		}
		key := values.Get("key")
		return call{op: OpLookup, key: key, run: func() (reply, error) {
			return listed(byKey[T](s, op, key))
		}}, checkKey(key)
	}
}

func (s *server) postVoid(w http.ResponseWriter, r *http.Request) (call, error) {
	key, err := idempotencyKey(r)
	if err == nil {
		err = decodeEmpty(w, r)
	}
	if err != nil {
		return call{}, err
	}
	credit, err := s.store.creditByID(r.PathValue("id"))
	return call{op: OpVoid, account: credit.AccountID, key: key, run: func() (reply, error) {
		return stored(http.StatusCreated)(s.store.void(key, credit))
	}}, err
}

func (s *server) postClose(w http.ResponseWriter, r *http.Request) (call, error) {
	account := r.PathValue("id")
	key, err := idempotencyKey(r)
	if err == nil {
		err = decodeEmpty(w, r)
	}
	if err == nil {
		err = checkID("account id", account)
	}
	return call{op: OpClose, account: account, key: key, run: func() (reply, error) {
		return stored(http.StatusOK)(s.store.closeAccount(key, account))
	}}, err
}

func (s *server) getEffects(_ http.ResponseWriter, r *http.Request) (reply, error) {
	name, value, err := oneOf(r, "account_id", "key_prefix")
	if err != nil {
		return reply{}, err
	}
	match := func(account, _ string) bool { return account == value }
	check := checkID(name, value)
	if name == "key_prefix" {
		match = func(_, key string) bool { return keyHasPrefix(key, value) }
		check = checkKey(value)
	}
	if check != nil {
		return reply{}, check
	}
	effects, err := s.store.effects(match)
	if err != nil {
		return reply{}, err
	}
	return replyJSON(http.StatusOK, effects)
}

func (s *server) getFaults(http.ResponseWriter, *http.Request) (reply, error) {
	return replyJSON(http.StatusOK, s.rules.list())
}

func (s *server) postFault(w http.ResponseWriter, r *http.Request) (reply, error) {
	var rule Rule
	if err := decode(w, r, &rule); err != nil {
		return reply{}, err
	}
	if err := rule.check(); err != nil {
		return reply{}, err
	}
	return replyJSON(http.StatusCreated, s.rules.add(rule))
}

func (s *server) deleteFaults(http.ResponseWriter, *http.Request) (reply, error) {
	s.rules.clear()
	return replyJSON(http.StatusOK, s.rules.list())
}

func getTestAccounts(http.ResponseWriter, *http.Request) (reply, error) {
	return replyJSON(http.StatusOK, TestAccounts())
}

func noRoute(http.ResponseWriter, *http.Request) (reply, error) {
	return reply{}, notFound("no such resource or method")
}

// stored answers a write: status the first time, 200 and the same body when its key had it already.
func stored(status int) func(json.RawMessage, bool, error) (reply, error) {
	return func(body json.RawMessage, replayed bool, err error) (reply, error) {
		if replayed {
			status = http.StatusOK
		}
		return reply{status: status, replayed: replayed, body: body}, err
	}
}

func listed[T any](found []T, err error) (reply, error) {
	if err != nil {
		return reply{}, err
	}
	return replyJSON(http.StatusOK, found)
}

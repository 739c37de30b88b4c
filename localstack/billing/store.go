package billing

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"
)

var (
	bucketCredits = []byte("credits") // credit id -> Credit
	bucketVoids   = []byte("voids")   // void id -> Void
	bucketClosed  = []byte("closed")  // account id -> Closure
	bucketKeys    = []byte("keys")    // idempotency key -> keyed
	bucketSends   = []byte("sends")   // sequence -> send
	bucketSenders = []byte("senders") // idempotency key -> the account it was first sent for
	bucketMeta    = []byte("meta")
)

var keySecret = []byte("session-secret")

// store is the service's database; safe for concurrent use. bbolt serialises
// writers and syncs the file on each commit.
type store struct {
	db *bolt.DB
}

// send is one write request that reached the service, whatever became of it.
type send struct {
	Operation Operation `json:"operation"`
	AccountID string    `json:"account_id"`
	Key       string    `json:"key"`
}

func openStore(path string) (*store, error) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: time.Second})
	if err != nil {
		return nil, fmt.Errorf("billing: opening data file %s (is another process using it?): %w", path, err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		for _, name := range [][]byte{bucketCredits, bucketVoids, bucketClosed, bucketKeys, bucketSends, bucketSenders, bucketMeta} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		meta := tx.Bucket(bucketMeta)
		if meta.Get(keySecret) != nil {
			return nil
		}
		// The secret is kept so that a token outlives a kill of this process.
		secret := make([]byte, 32)
		_, _ = rand.Read(secret) // never fails: crypto/rand aborts the process instead
		return meta.Put(keySecret, secret)
	})
	if err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("billing: preparing data file %s: %w", path, err)
	}
	return &store{db: db}, nil
}

func (s *store) close() error { return s.db.Close() }

func (s *store) secret() (secret []byte, err error) {
	err = s.db.View(func(tx *bolt.Tx) error {
		secret = append(secret, tx.Bucket(bucketMeta).Get(keySecret)...)
		return nil
	})
	return secret, err
}

// recordSend counts a request that arrived and reports whether it is the first
// of its key (always true without a key).
func (s *store) recordSend(n send) (first bool, err error) {
	first = true
	err = s.db.Update(func(tx *bolt.Tx) error {
		sends, senders := tx.Bucket(bucketSends), tx.Bucket(bucketSenders)
		if n.Key != "" {
			first = senders.Get([]byte(n.Key)) == nil
			if first {
				if err := senders.Put([]byte(n.Key), []byte(n.AccountID)); err != nil {
					return err
				}
			}
		}
		seq, err := sends.NextSequence()
		if err != nil {
			return err
		}
		// Stored with this commit: that the request came. Effects counts it even
		// if the request is dropped or the process dies before the effect.
		return putJSON(sends, binary.BigEndian.AppendUint64(nil, seq), n)
	})
	return first, err
}

// accountOf returns the account that key was first sent for, empty if it never came.
func (s *store) accountOf(key string) (account string, err error) {
	err = s.db.View(func(tx *bolt.Tx) error {
		account = string(tx.Bucket(bucketSenders).Get([]byte(key)))
		return nil
	})
	return account, err
}

func (s *store) credit(key string, req CreditRequest) (json.RawMessage, bool, error) {
	request := fmt.Sprintf("%s %d", req.AccountID, req.AmountCents)
	return s.write(OpCredit, key, request, func(tx *bolt.Tx) (any, error) {
		if err := req.checkAmount(); err != nil {
			return nil, err
		}
		if tx.Bucket(bucketClosed).Get([]byte(req.AccountID)) != nil {
			return nil, refusal(CodeAccountClosed, "the account is closed")
		}
		id, err := nextID(tx.Bucket(bucketCredits), "cr")
		if err != nil {
			return nil, err
		}
		c := Credit{CreditID: id, AccountID: req.AccountID, AmountCents: req.AmountCents, Key: key}
		return c, putJSON(tx.Bucket(bucketCredits), []byte(id), c)
	})
}

func (s *store) void(key string, c Credit) (json.RawMessage, bool, error) {
	return s.write(OpVoid, key, c.CreditID, func(tx *bolt.Tx) (any, error) {
		id, err := nextID(tx.Bucket(bucketVoids), "vo")
		if err != nil {
			return nil, err
		}
		v := Void{VoidID: id, CreditID: c.CreditID, AccountID: c.AccountID, Key: key}
		return v, putJSON(tx.Bucket(bucketVoids), []byte(id), v)
	})
}

func (s *store) closeAccount(key, account string) (json.RawMessage, bool, error) {
	return s.write(OpClose, key, account, func(tx *bolt.Tx) (any, error) {
		c := Closure{AccountID: account, Closed: true, Key: key}
		return c, putJSON(tx.Bucket(bucketClosed), []byte(account), c)
	})
}

// creditByID returns the credit, or a 404.
func (s *store) creditByID(id string) (c Credit, err error) {
	err = s.db.View(func(tx *bolt.Tx) error {
		stored := tx.Bucket(bucketCredits).Get([]byte(id))
		if stored == nil {
			return notFound("no such credit")
		}
		return json.Unmarshal(stored, &c)
	})
	return c, err
}

// byKey returns what op made under key: nothing or one.
func byKey[T any](s *store, op Operation, key string) ([]T, error) {
	found := []T{}
	err := s.db.View(func(tx *bolt.Tx) error {
		stored := tx.Bucket(bucketKeys).Get([]byte(key))
		if stored == nil {
			return nil
		}
		var k keyed
		if err := json.Unmarshal(stored, &k); err != nil || k.Operation != op {
			return err
		}
		var one T
		if err := json.Unmarshal(k.Body, &one); err != nil {
			return err
		}
		found = append(found, one)
		return nil
	})
	return found, err
}

func (s *store) creditsOf(account string) ([]Credit, error) {
	found := []Credit{}
	err := s.db.View(func(tx *bolt.Tx) error {
		return each(tx.Bucket(bucketCredits), func(c Credit) {
			if c.AccountID == account {
				found = append(found, c)
			}
		})
	})
	return found, err
}

// nextID numbers from the bucket's own sequence; fixed width keeps ids in order.
func nextID(b *bolt.Bucket, prefix string) (string, error) {
	seq, err := b.NextSequence()
	return fmt.Sprintf("%s_%08d", prefix, seq), err
}

func putJSON(b *bolt.Bucket, key []byte, value any) error {
	encoded, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return b.Put(key, encoded)
}

func each[T any](b *bolt.Bucket, visit func(T)) error {
	return b.ForEach(func(_, stored []byte) error {
		var v T
		if err := json.Unmarshal(stored, &v); err != nil {
			return fmt.Errorf("billing: unreadable record: %w", err)
		}
		visit(v)
		return nil
	})
}

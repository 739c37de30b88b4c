package table

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/onceward/onceward/internal/names"
	"github.com/onceward/onceward/localstack/dynamodb/enginetest"
)

func TestTableIsMadeOnceOnEveryEngine(t *testing.T) {
	for _, kind := range []string{"dynoxide", "dynalite"} {
		t.Run(kind, func(t *testing.T) {
			client := dynamodb.NewFromConfig(aws.Config{
				Region: "us-east-1", BaseEndpoint: aws.String(enginetest.Start(t, kind)), Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""),
			})
			name := enginetest.Table(t)
			for range 2 { // a table that is there already is taken as it is
				if err := Create(t.Context(), client, name); err != nil {
					t.Fatal(err)
				}
			}
			out, err := client.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &name})
			if err != nil {
				t.Fatal(err)
			}
			if out.Table.TableStatus != types.TableStatusActive || len(out.Table.GlobalSecondaryIndexes) != 1 || *out.Table.GlobalSecondaryIndexes[0].IndexName != names.Index {
				t.Errorf("%+v", out.Table)
			}
		})
	}
}

package lambda_test

const diesWithParent = true

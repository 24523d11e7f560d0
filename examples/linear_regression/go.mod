module linear_regression

go 1.21

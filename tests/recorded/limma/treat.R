library(limma)
set.seed(7)
y <- matrix(rnorm(40*4, sd=.05), 40, 4); y[1,] <- y[1,] - .22; y[5,2] <- y[5,2] - .7
fit <- eBayes(lmFit(y, design=matrix(1,4,1)), robust=TRUE)
t <- treat(lmFit(y, design=matrix(1,4,1)), lfc=0.05, robust=TRUE)
j <- function(v) paste0("[", paste(sprintf("%.15g", v), collapse=","), "]")
cat(sprintf('{"name":"paired","differences":[%s],"coefficient":%s,"error":%s,"freedom":%s,"t":%s,"p_treat":%s}\n',
 paste(apply(y,1,j),collapse=","), j(fit$coef[,1]), j(sqrt(fit$s2.post)*fit$stdev.unscaled[,1]), j(fit$df.total), j(fit$t[,1]), j(t$p.value[,1])))

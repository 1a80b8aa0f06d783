library(limma)
set.seed(20261123)
cases <- list()
show <- function(name, x, df) {
  s <- squeezeVar(x, df, robust=TRUE); p <- squeezeVar(x, df)
  f <- fitFDist(x, df); r <- suppressWarnings(fitFDistRobustly(x, df))
  j <- function(v) paste0("[", paste(ifelse(is.finite(v), sprintf("%.15g", v), '"inf"'), collapse=","), "]")
  cat(sprintf('{"name":"%s","variances":%s,"freedom":%s,"scale":%s,"d0":%s,"robust_scale":%s,"robust_d0":%s,"plain_post":%s,"robust_post":%s,"robust_weights":%s}\n',
    name, j(x), j(rep_len(df, length(x))), j(f$scale), j(f$df2), j(r$scale), j(r$df2), j(p$var.post), j(s$var.post), j(rep_len(r$df2.shrunk,length(x)))))
}
s <- function(n, d, d0, s0) { sig <- if (is.finite(d0)) s0*d0/rchisq(n,d0) else rep(s0,n); sig*rchisq(n,d)/d }
show("alike", s(40,2,Inf,.0025), 2)
show("finite", s(40,4,3,.0025), 4)
x <- s(40,4,20,.0025); x[7] <- .5; show("wild", x, 4)
x <- s(40,2,Inf,.0025); x[3] <- .3; show("wild-alike", x, 2)
show("few", s(5,4,4,.0025), 4)
df <- rep(c(2,4,7,10),10); show("unequal", s(40,1,5,.0025)*0+sapply(df,function(d) s(1,d,5,.0025)), df)
show("spread", exp(rnorm(60,-8,3)), 4)
x <- sapply(df,function(d) s(1,d,Inf,.0025)); x[1] <- 1; show("unequal-wild", x, df)

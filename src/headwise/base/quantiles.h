// Student's t, exactly: what the normal is to a known scatter, to one that was
// estimated from few values. By the regularised incomplete beta function.
#pragma once

namespace headwise {

// I_x(a, b), the share of a beta distribution below x in [0, 1]; a, b > 0.
double BetaBelow(double x, double a, double b);

// The probability of a smaller t with so many degrees of freedom (> 0).
double StudentBelow(double t, double freedom);

// The t that a share p in (0, 1) lies below.
double StudentQuantile(double p, double freedom);

}  // namespace headwise

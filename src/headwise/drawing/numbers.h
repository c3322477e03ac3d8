// Numbers as reports and drawings write them: short, finite; and the axes that
// they stand along.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "headwise/base/json.h"
#include "headwise/study/picture.h"

namespace headwise {

// To this many significant digits.
double Rounded(double value, int digits = 4);

// Three digits that count, whole numbers whole: "0.123", "2000", "1e+07".
std::string PlainNumber(double value);

// The same for JSON: null for what is not a number.
Json Number(double value, int digits = 4);

// "low" and "high", where both are finite.
void PutInterval(Json& json, double low, double high);

// The values of a plot along one axis (their log10 of a logarithmic one), from
// the least to the largest; 0 to 1 of none.
struct Extent {
  double low = 0, high = 1;
};
Extent ExtentOf(const LinePlot& plot, bool vertical);

// About five from low to high, at 1, 2 or 5 times a power of ten.
std::vector<double> Ticks(double low, double high);

// Weights in [0, 1] as base64 of one byte each, weight · 255 rounded.
std::string Bytes(std::span<const float> weights);

}  // namespace headwise

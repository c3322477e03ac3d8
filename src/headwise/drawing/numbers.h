// Numbers as a report writes them: short, finite.
#pragma once

#include <span>
#include <string>

#include "headwise/base/json.h"

namespace headwise {

// To this many significant digits.
double Rounded(double value, int digits = 4);

// Three digits that count, whole numbers whole: "0.123", "2000", "1e+07".
std::string PlainNumber(double value);

// The same for JSON: null for what is not a number.
Json Number(double value, int digits = 4);

// "low" and "high", where both are finite.
void PutInterval(Json& json, double low, double high);

// Weights in [0, 1] as base64 of one byte each, weight · 255 rounded.
std::string Bytes(std::span<const float> weights);

}  // namespace headwise

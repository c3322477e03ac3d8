/// @file
/// A job lists its fields once:
///
///   template <typename Self, typename Visit>
///   static void VisitFields(Self& self, Visit&& visit) {
///     visit("rows", self.rows, "queries that are sampled", AtLeast(1));
///   }
///
/// gives each field's name, value and help, and of numbers the range where they
/// have one. Flags, Python's keywords, JSON and the checks of ranges come from
/// that list. An enum's words come from FieldWords, in the order of its values,
/// counted from 0; words that stand for several values, or none, of a list of
/// them, from FieldGroups.
#pragma once

#include <limits>
#include <span>

namespace headwise {

/// Finite numbers that a field, or each of a list, may hold.
struct FieldRange {
  double least = std::numeric_limits<double>::lowest();
  double most = std::numeric_limits<double>::max();
  bool above = false;  ///< `least` itself is too small

  constexpr bool Holds(double value) const {
    return (above ? value > least : value >= least) && value <= most;
  }
};
constexpr FieldRange AtLeast(double least) { return {.least = least}; }
constexpr FieldRange Above(double least) {
  return {.least = least, .above = true};
}
constexpr FieldRange Between(double least, double most) {
  return {.least = least, .most = most};
}

/// A word for several values of an enum, in lists of them.
template <typename Enum>
struct FieldGroup {
  const char* word;
  std::span<const Enum> values;
};

}  // namespace headwise

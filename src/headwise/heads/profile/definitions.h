// The one list of metrics: what each measures and what to beware of. Serves
// --explain, the documentation and the report.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "headwise/base/intervals.h"

namespace headwise {

struct MetricDefinition {
  const char* name = "";  // "offset.K" and "syntactic.R.up" stand for many
  const char* sentence = "";
  const char* trap = "";   // "": none
  Bounds bounds = kShare;  // what it can be
};

std::span<const MetricDefinition> MetricDefinitions();

// The definition of a metric in any of its forms ("previous.content",
// "repeats.duplicate", "offset.-3.chance"), or null.
const MetricDefinition* FindDefinition(std::string_view metric);

// What a metric can be, in any of its forms; a share where nothing is known.
Bounds BoundsOf(std::string_view metric);

// Which rows do not count, for --explain.
std::span<const MetricDefinition> RowDefinitions();

// What the suffixes and prefixes of names say, for --explain.
std::span<const MetricDefinition> MetricForms();

}  // namespace headwise

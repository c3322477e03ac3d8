// Metrics and roles in words: what each one is, when a head has it, and how it
// misleads.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "headwise/export.h"
#include "headwise/roles.h"

namespace headwise {

struct MetricWords {
  std::string name = {};  ///< "offset.K" and "syntactic.R.up" stand for many
  std::string what = {};
  std::string trap = {};  ///< how it misleads; "": in no known way
};

struct MetricGlossary {
  std::vector<MetricWords> metrics = {};
  std::vector<MetricWords> forms = {};          ///< suffixes and prefixes
  std::vector<MetricWords> rows_left_out = {};  ///< that do not count
};
HEADWISE_API MetricGlossary ExplainMetrics();

/// The tokens of a model whose rows are left out: "<s> (1)". model: a folder
/// with a config.json.
HEADWISE_API std::vector<std::string> SpecialTokenNames(
    const std::filesystem::path& model);

struct RoleWords {
  std::string role = {};      ///< "previous-token"
  char letter = ' ';          ///< in narrow maps; no other role's
  std::string means = {};     ///< one sentence
  std::string when = {};      ///< "previous ≥ 0.50, …"
  std::string material = {};  ///< that it is judged on
  std::string trap = {};
};

struct RoleGlossary {
  std::vector<RoleWords> roles = {};  ///< in the order of equal strength
  /// Mean mass off the sinks that a role without them needs.
  double content_mass = 0;
};
/// With the job's thresholds. Throws Error(kInvalidArgument) for one that is
/// not known, with the nearest name.
HEADWISE_API RoleGlossary ExplainRoles(const RoleJob& job = {});

/// docs/metrics.md.
HEADWISE_API std::string MetricsPage();

}  // namespace headwise

// Door: prune_options.h.
#include "prune_options.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "command.h"
#include "headwise/error.h"

namespace headwise {

ChooseOptions PruneOptions::choice() const {
  ChooseOptions choose;
  choose.keep = std::max(keep, 0.0);
  choose.uniform = uniform;
  if (whole_groups) choose.unit = GroupUnit::kGroups;
  choose.empty = empty();
  return choose;
}

Repairs ParseRepairs(const std::string& names) {
  Repairs repairs;
  if (names == "none") return repairs;
  int last = 0;
  for (size_t begin = 0; begin <= names.size();) {
    const size_t end = std::min(names.find(',', begin), names.size());
    const std::string name = names.substr(begin, end - begin);
    const int place = name == "fold"            ? 1
                      : name == "least-squares" ? 2
                      : name == "finetune"      ? 3
                                                : 0;
    if (place == 0) {
      throw UsageError(
          "--repair: expected none, fold, least-squares or finetune; found " +
          name);
    }
    if (place <= last) {
      throw UsageError(
          "--repair: expected the order fold,least-squares,finetune; found " +
          names);
    }
    last = place;
    repairs.fold |= place == 1;
    repairs.least_squares |= place == 2;
    repairs.finetune |= place == 3;
    begin = end + 1;
  }
  return repairs;
}

LossLimit ParseLossLimit(const std::string& text) {
  LossLimit limit;
  std::string number = text;
  if (number.starts_with('+')) number.erase(0, 1);
  if (number.ends_with('%')) {
    limit.relative = true;
    number.pop_back();
  }
  const char* end = number.data() + number.size();
  const auto [stop, code] = std::from_chars(number.data(), end, limit.value);
  if (code != std::errc() || stop != end || !std::isfinite(limit.value) ||
      limit.value < 0) {
    throw UsageError(
        "--max-loss: expected a rise as +1% (of the loss) or +0.05 (nats); "
        "found " +
        text);
  }
  if (limit.relative) limit.value /= 100;
  return limit;
}

void CheckUsage(const PruneOptions& options) {
  const int ways = (options.keep >= 0) + !options.drop.empty() +
                   !options.plan.empty() + !options.max_loss.empty() +
                   (options.target_speedup > 0);
  const bool curve = !options.curve.empty();
  if (ways != 1 && !(curve && ways == 0 && options.out.empty())) {
    throw UsageError(
        "expected one of --keep, --drop, --plan, --max-loss, "
        "--target-speedup");
  }
  if (options.keep > 1) {
    throw UsageError(fmt::format(
        "--keep: expected a share from 0 to 1; found {}", options.keep));
  }
  if (options.iterative > 1 &&
      (!options.drop.empty() || !options.plan.empty() || curve)) {
    throw UsageError(
        "--iterative ranks heads: expected --keep, --max-loss or "
        "--target-speedup with it, and no --curve");
  }
  if (options.iterative > 1 && options.by == "gates") {
    throw UsageError("--by gates learns all gates at once: no --iterative");
  }
  if (!options.mean.empty() && !ParseRepairs(options.repair).fold) {
    throw UsageError("--mean is what fold takes: expected --repair fold");
  }
  if (!options.max_loss.empty()) ParseLossLimit(options.max_loss);
  if (options.plan_only && !options.out.empty()) {
    throw UsageError(
        "--plan-only writes no model: leave out --out, or leave out "
        "--plan-only");
  }
  if (options.plan_only && options.plan_out.empty()) {
    throw UsageError("--plan-only needs --plan-out FILE");
  }
  if (!options.plan_only && options.out.empty() && !(curve && ways == 0)) {
    throw UsageError("expected --out FOLDER");
  }
}

TextParts SplitText(std::span<const TextExample> examples) {
  const size_t cut = examples.size() - std::max<size_t>(1, examples.size() / 4);
  if (cut == 0) {
    throw Error(ErrorCode::kInvalidArgument,
                {"text",
                 "at least two windows: some to choose by, some to "
                 "judge by",
                 "one", "more text, or a smaller --context"});
  }
  return {examples.first(cut), examples.subspan(cut)};
}

}  // namespace headwise

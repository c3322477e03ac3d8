// Door: prune_job.h.
#include "headwise/api/prune_job.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>

#include "headwise/base/fields.h"
#include "headwise/error.h"

namespace headwise {
namespace {

[[noreturn]] void RefuseWord(const char* what, const std::string& expected,
                             const std::string& found) {
  throw Error(ErrorCode::kInvalidArgument, {what, expected, found, ""});
}

}  // namespace

ChooseOptions ChoiceOf(const PruneJob& job) {
  ChooseOptions choose;
  choose.keep = job.keep.value_or(0);
  choose.uniform = job.uniform;
  if (job.whole_groups) choose.unit = GroupUnit::kGroups;
  if (job.allow_empty) choose.empty = EmptyLayers::kAllowed;
  return choose;
}

bool Does(const PruneJob& job, Repair repair) {
  return std::ranges::find(job.repair, repair) != job.repair.end();
}

void RequireOrder(std::span<const Repair> repairs) {
  if (std::ranges::adjacent_find(repairs, std::greater_equal<>()) ==
      repairs.end()) {
    return;
  }
  std::string found;
  for (const Repair repair : repairs) {
    found += (found.empty() ? "" : ",") + std::string(FieldWord(repair));
  }
  RefuseWord("`repair`", "the order fold,least-squares,finetune", found);
}

LossLimit ParseLossLimit(const std::string& text) {
  LossLimit limit;
  std::string number = text;
  if (number.starts_with('+')) number.erase(0, 1);
  const bool nats = number.ends_with("nats");
  if (number.ends_with('%')) {
    limit.relative = true;
    number.pop_back();
  } else if (nats) {
    number.resize(number.size() - 4);
    if (number.ends_with(' ')) number.pop_back();
  }
  const char* end = number.data() + number.size();
  const auto [stop, code] = std::from_chars(number.data(), end, limit.value);
  if (code != std::errc() || stop != end || !std::isfinite(limit.value) ||
      limit.value < 0) {
    RefuseWord("`max_loss`", "a rise as +1% (of the loss) or +0.05nats", text);
  }
  if (!nats && !limit.relative && limit.value > 1) {
    RefuseWord("`max_loss`",
               "a unit: " + text + "% of the loss, or " + text +
                   "nats a prediction, which leaves little of a model",
               text + ", which is above 1");
  }
  if (limit.relative) limit.value /= 100;
  return limit;
}

TextParts SplitText(std::span<const TextExample> examples) {
  const size_t cut = examples.size() - std::max<size_t>(1, examples.size() / 4);
  if (cut == 0) {
    throw Error(ErrorCode::kInvalidArgument,
                {"text",
                 "at least two windows: some to choose by, some to "
                 "judge by",
                 "one", "more text, or a smaller `context`"});
  }
  return {examples.first(cut), examples.subspan(cut)};
}

}  // namespace headwise

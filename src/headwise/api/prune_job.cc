// Door: prune_job.h.
#include "headwise/api/prune_job.h"

#include <algorithm>
#include <charconv>
#include <cmath>

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
  choose.keep = std::max(job.keep, 0.0);
  choose.uniform = job.uniform;
  if (job.whole_groups) choose.unit = GroupUnit::kGroups;
  if (job.allow_empty) choose.empty = EmptyLayers::kAllowed;
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
      RefuseWord("repair", "none, fold, least-squares or finetune", name);
    }
    if (place <= last) {
      RefuseWord("repair", "the order fold,least-squares,finetune", names);
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
    RefuseWord("max_loss", "a rise as +1% (of the loss) or +0.05nats", text);
  }
  if (!nats && !limit.relative && limit.value > 1) {
    RefuseWord("max_loss",
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

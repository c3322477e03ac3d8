// Door: same_run.h.
#include "headwise/dist/same_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "headwise/dist/pack.h"
#include "headwise/error.h"

namespace headwise::dist {
namespace {

// Fields that one error names, and bytes of a value that it shows.
constexpr size_t kMostNamed = 3;
constexpr size_t kMostShown = 100;

using Values = std::map<std::string, std::string>;

std::string PackFields(std::span<const RunField> fields) {
  Packer to;
  to.Put(fields.size());
  for (const RunField& field : fields) {
    to.Put(field.name);
    to.Put(field.value);
  }
  return to.Take();
}

std::vector<RunField> UnpackFields(const std::string& bytes) {
  Unpacker from(bytes);
  std::vector<RunField> fields;
  for (auto left = from.Get<size_t>(); left > 0; --left) {
    RunField& field = fields.emplace_back();
    field.name = from.GetString();
    field.value = from.GetString();
  }
  return fields;
}

std::string Shown(const Values& values, const std::string& name) {
  const auto found = values.find(name);
  if (found == values.end()) return "nothing";
  const std::string& text = found->second;
  return text.size() > kMostShown ? text.substr(0, kMostShown) + "…" : text;
}

// "--context: 64 on rank 0, 32 on rank 2": the first rank that differs from
// rank 0. Nothing where all agree.
std::optional<std::string> Difference(const std::vector<Values>& ranks,
                                      const std::string& name) {
  const auto value = [&](size_t rank) -> const std::string* {
    const auto found = ranks[rank].find(name);
    return found == ranks[rank].end() ? nullptr : &found->second;
  };
  for (size_t rank = 1; rank < ranks.size(); ++rank) {
    const std::string *first = value(0), *other = value(rank);
    if (first == other) continue;  // neither has it
    if (first != nullptr && other != nullptr && *first == *other) continue;
    return fmt::format("{}: {} on rank 0, {} on rank {}", name,
                       Shown(ranks[0], name), Shown(ranks[rank], name), rank);
  }
  return {};
}

}  // namespace

void RequireSameRun(Group& group, std::span<const RunField> fields) {
  if (group.is_single()) return;
  std::vector<Values> ranks;
  std::vector<std::string> names;  // in the order in which ranks give them
  for (const std::string& bytes : group.AllGather(PackFields(fields))) {
    Values& values = ranks.emplace_back();
    for (RunField& field : UnpackFields(bytes)) {
      if (std::ranges::find(names, field.name) == names.end()) {
        names.push_back(field.name);
      }
      values[field.name] = std::move(field.value);
    }
  }
  std::vector<std::string> differences;
  for (const std::string& name : names) {
    if (differences.size() == kMostNamed) break;
    if (auto found = Difference(ranks, name)) differences.push_back(*found);
  }
  if (differences.empty()) return;
  throw Error(ErrorCode::kInvalidArgument,
              {"ranks", "all of them to run the same",
               fmt::format("{}", fmt::join(differences, "; ")),
               "start every rank with the same program, flags and files"});
}

}  // namespace headwise::dist

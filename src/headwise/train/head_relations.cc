// Relations of positions. Door: head_relations.h.
#include "headwise/train/head_relations.h"

#include <cmath>
#include <string>
#include <unordered_map>

#include "headwise/base/fields.h"
#include "headwise/error.h"

namespace headwise {
namespace {

constexpr int64_t kNone = -1;

bool Sees(const AttentionMask& mask, int64_t query, int64_t key) {
  if (mask.after != kUnlimited && key > query + mask.after) return false;
  return mask.before == kUnlimited || key >= query - mask.before ||
         key < mask.sinks;
}

// For each position of a sequence the key of the relation, or kNone.
std::vector<int64_t> KeysOf(HeadRelation relation,
                            std::span<const int32_t> ids) {
  const auto count = static_cast<int64_t>(ids.size());
  std::vector<int64_t> keys(ids.size(), kNone);
  std::unordered_map<int32_t, int64_t> seen;  // the last place of an id
  for (int64_t i = 0; i < count; ++i) {
    const auto before = seen.find(ids[i]);
    const bool again = before != seen.end();
    switch (relation) {
      case HeadRelation::kPrevious:
        keys[i] = i - 1;
        break;
      case HeadRelation::kNext:
        keys[i] = i + 1 < count ? i + 1 : kNone;
        break;
      case HeadRelation::kSelf:
        keys[i] = i;
        break;
      case HeadRelation::kFirst:
        keys[i] = i > 0 ? 0 : kNone;
        break;
      case HeadRelation::kLast:
        keys[i] = i + 1 < count ? count - 1 : kNone;
        break;
      case HeadRelation::kSameToken:
        if (!again) break;
        keys[i] = before->second;
        // The first of them looks ahead, where it may.
        if (keys[before->second] == kNone) keys[before->second] = i;
        break;
      case HeadRelation::kInduction:
        if (again) keys[i] = before->second + 1;
        break;
    }
    seen[ids[i]] = i;
  }
  return keys;
}

}  // namespace

std::vector<HeadAssignment> ReadAssignments(const Json& heads,
                                            const std::string& where) {
  const auto found = heads.find("assign");
  if (found == heads.end()) return {};
  const std::string place = where + ": heads.assign";
  const auto refuse = [](const std::string& at, const std::string& expected,
                         const Json& value) {
    throw Error(ErrorCode::kInvalidArgument, {at, expected, value.dump(), ""});
  };
  if (!found->is_array()) refuse(place, "a list of assignments", *found);
  std::vector<HeadAssignment> assignments;
  for (size_t i = 0; i < found->size(); ++i) {
    const Json& entry = (*found)[i];
    const std::string at = place + "[" + std::to_string(i) + "]";
    if (!entry.is_object()) refuse(at, "an object", entry);
    for (const char* key : {"layer", "head", "relation"}) {
      if (!entry.contains(key))
        refuse(at, "\"" + std::string(key) + "\"", entry);
    }
    HeadAssignment& one = assignments.emplace_back();
    FieldsFromJson(entry, one, at);
    if (!(one.weight > 0) || !std::isfinite(one.weight)) {
      refuse(at, "a weight above 0", one.weight);
    }
  }
  return assignments;
}

RelationPairs FindPairs(HeadRelation relation, std::span<const int32_t> ids,
                        std::span<const int32_t> starts,
                        const AttentionMask& mask) {
  RelationPairs pairs;
  for (size_t s = 0; s + 1 < starts.size(); ++s) {
    const int32_t begin = starts[s];
    const std::vector<int64_t> keys =
        KeysOf(relation, ids.subspan(begin, starts[s + 1] - begin));
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto query = static_cast<int64_t>(i);
      if (keys[i] == kNone || !Sees(mask, query, keys[i])) continue;
      pairs.queries.push_back(begin + static_cast<int32_t>(i));
      pairs.keys.push_back(begin + static_cast<int32_t>(keys[i]));
    }
  }
  return pairs;
}

}  // namespace headwise

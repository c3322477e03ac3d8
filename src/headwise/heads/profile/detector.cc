// Reading and applying detectors. Door: detector.h.
#include "headwise/heads/profile/detector.h"

#include <algorithm>
#include <utility>

#include "headwise/error.h"

namespace headwise {
namespace {

constexpr int64_t kMostLabel = 1 << 30;
constexpr int64_t kMostByte = int64_t{1} << 50;

bool IsName(const std::string& name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  };
  return !name.empty() && std::all_of(name.begin(), name.end(), allowed);
}

struct Bytes {
  uint64_t begin = 0;
  uint64_t end = 0;
  friend auto operator<=>(const Bytes&, const Bytes&) = default;
};

Bytes ReadBytes(const JsonCursor& begin, const JsonCursor& end) {
  const int64_t first = begin.Int(0, kMostByte);
  return {static_cast<uint64_t>(first),
          static_cast<uint64_t>(end.Int(first + 1, kMostByte))};
}

}  // namespace

Detector::Labels Detector::ReadLabels(const JsonCursor& json) {
  const Labels labels{
      static_cast<int32_t>(json.Int("query", 0, kMostLabel, -1)),
      static_cast<int32_t>(json.Int("key", 0, kMostLabel, -1))};
  if (labels.query < 0 && labels.key < 0) {
    json.Fail("a label under \"query\", \"key\" or both");
  }
  return labels;
}

// Each query of the pairs gets a label of its own, its keys the same.
void Detector::ReadPairs(const JsonCursor& json) {
  std::map<std::pair<std::string, Bytes>, int32_t> queries, keys;
  int32_t next = static_cast<int32_t>(kMostLabel);
  for (const JsonCursor& pair : json.Items()) {
    const std::string document = pair["document"].String();
    const auto ends = [&](const char* side) {
      const std::vector<JsonCursor> both = pair[side].Items();
      if (both.size() != 2) pair[side].Fail("[begin, end] in bytes");
      return ReadBytes(both[0], both[1]);
    };
    const Bytes query = ends("query"), key = ends("key");
    const auto [label, fresh] = queries.try_emplace({document, query}, next);
    if (fresh) ++next;
    const auto [known, first] =
        keys.try_emplace({document, key}, label->second);
    if (!first && known->second != label->second) {
      pair.Fail(
          "each key in pairs of one query; give queries that share keys one "
          "label under \"spans\"");
    }
    if (fresh) {
      documents_[document].push_back(
          {query.begin, query.end, {label->second, -1}});
    }
    if (first) {
      documents_[document].push_back({key.begin, key.end, {-1, label->second}});
    }
  }
}

Detector Detector::Load(const std::filesystem::path& path) {
  const Json json = ReadJson(path);
  const JsonCursor root(json, path.string());
  Detector detector;
  detector.name_ = root["name"].String();
  if (!IsName(detector.name_)) {
    root["name"].Fail("a name of a–z, 0–9 and -");
  }
  if (const auto rules = root.Find("rules")) {
    for (const JsonCursor& rule : rules->Items()) {
      detector.rules_.push_back(
          {Pattern::Regex(rule["match"].String(), rule["match"].where()),
           ReadLabels(rule)});
    }
  }
  if (const auto spans = root.Find("spans")) {
    for (const JsonCursor& span : spans->Items()) {
      const Bytes bytes = ReadBytes(span["begin"], span["end"]);
      detector.documents_[span["document"].String()].push_back(
          {bytes.begin, bytes.end, ReadLabels(span)});
    }
  }
  if (const auto pairs = root.Find("pairs")) detector.ReadPairs(*pairs);
  if (detector.rules_.empty() && detector.documents_.empty()) {
    root.Fail("\"rules\", \"spans\" or \"pairs\"");
  }
  return detector;
}

std::vector<Detector::Stretch> Detector::Find(const TokenWindow& window) const {
  std::vector<Stretch> found;
  const WorkBudget budget(window.source.text->size());
  for (const Rule& rule : rules_) {
    for (const Match& match : rule.match.Cut(*window.source.text, &budget)) {
      if (match.matched) {
        found.push_back({match.range.begin, match.range.end, rule.labels});
      }
    }
  }
  // A document may be named by its path's end.
  for (const auto& [name, stretches] : documents_) {
    if (window.name != name && !window.name.ends_with("/" + name)) continue;
    for (Stretch stretch : stretches) {
      if (stretch.end <= window.offset) continue;
      stretch.begin = std::max(stretch.begin, window.offset) - window.offset;
      stretch.end -= window.offset;
      found.push_back(stretch);
    }
  }
  return found;
}

void Detector::Label(const TokenWindow& window,
                     std::vector<int32_t>& query_labels,
                     std::vector<int32_t>& key_labels) {
  const TokenRow& row = window.source;
  query_labels.assign(row.ids.size(), -1);
  key_labels.assign(row.ids.size(), -1);
  if (row.text == nullptr) return;
  if (row.text != text_) {
    found_ = Find(window);
    text_ = row.text;
  }
  // Of the whole text there may be many; few of them are in this window.
  uint32_t begin = UINT32_MAX, end = 0;
  for (size_t i = 0; i < row.ids.size(); ++i) {
    if (row.added[i] != 0) continue;
    begin = std::min(begin, row.spans[i].begin);
    end = std::max(end, row.spans[i].end);
  }
  for (const Stretch& stretch : found_) {
    if (stretch.end <= begin || stretch.begin >= end) continue;
    for (size_t i = 0; i < row.ids.size(); ++i) {
      const TextSpan span = row.spans[i];
      if (row.added[i] != 0 || span.end <= stretch.begin ||
          span.begin >= stretch.end) {
        continue;
      }
      // The first rule that labels a token holds.
      if (query_labels[i] < 0) query_labels[i] = stretch.labels.query;
      if (key_labels[i] < 0) key_labels[i] = stretch.labels.key;
    }
  }
}

}  // namespace headwise

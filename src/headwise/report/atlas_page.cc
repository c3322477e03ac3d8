// The page of an atlas, its index and a script a head: pages from disk may load
// scripts, and no other files. Door: atlas_files.h.
#include <algorithm>
#include <cmath>
#include <utility>

#include "headwise/base/atomic_file.h"
#include "headwise/base/fields.h"
#include "headwise/drawing/html.h"
#include "headwise/drawing/numbers.h"
#include "headwise/report/atlas_files.h"
#include "headwise/report/html_report.h"

namespace headwise {
namespace {

constexpr size_t kTokensListed = 12;

// A call of a function of the page. U+2028 and the like may stand in strings of
// scripts since 2019, and "</script" is no end of a file.
void WriteScript(const std::filesystem::path& path, const char* function,
                 const Json& argument) {
  WriteFileAtomically(
      path, std::string(function) + "(" + ScriptJson(argument) + ");\n");
}

Json MetricColumns() {
  Json columns = Json::array();
  const auto words = FieldWords(HeadVisMetric{});
  for (size_t m = 0; m < kHeadVisMetrics; ++m) {
    columns.push_back({{"name", words[m]},
                       {"words", Describe(static_cast<HeadVisMetric>(m))}});
  }
  return columns;
}

Json NumbersOf(std::span<const double> values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(Number(value, 5));
  return list;
}

// A head as the list of heads knows it.
Json IndexEntry(const AtlasParts& parts, size_t head) {
  const AtlasHead& one = parts.atlas.heads[head];
  const Json& card = parts.report["heads"][head];
  Json roles = Json::array();
  for (const Json& role : card["roles"]) roles.push_back(role["name"]);
  Json entry = {{"id", ToString(one.head)},
                {"file", FileNameOf(one.head)},
                {"roles", std::move(roles)},
                {"values", NumbersOf(one.metrics)}};
  if (card.contains("importance")) entry["importance"] = card["importance"];
  return entry;
}

Json TokensJson(const TokenWeights& weights, const TokenText& text) {
  Json list = Json::array();
  for (const TokenWeights::Entry& entry : weights.Largest(kTokensListed)) {
    list.push_back({{"token", text.Of(entry.token)},
                    {"share", Rounded(entry.weight / weights.total(), 3)}});
  }
  return list;
}

Json MatchesJson(const std::vector<TokenWrites>& matches,
                 const TokenText& text) {
  Json list = Json::array();
  for (const TokenWrites& one : matches) {
    Json top = Json::array();
    for (const WrittenToken& key : one.top) {
      top.push_back(
          {{"token", text.Of(key.id)}, {"logit", Rounded(key.logit, 3)}});
    }
    list.push_back({{"token", text.Of(one.read)}, {"top", std::move(top)}});
  }
  return list;
}

// Attention in thousandths.
Json ShownSequence(const AtlasParts& parts, const KeptSequence& kept,
                   const SparseMap& map) {
  Json tokens = Json::array(), shares = Json::array();
  for (const int32_t id : parts.sums.ids(kept.sequence)) {
    tokens.push_back(parts.text.Of(id));
  }
  for (const float value : map.values) {
    shares.push_back(static_cast<int>(std::lround(1000 * value)));
  }
  return {{"number", kept.sequence},
          {"interval", kept.interval},
          {"strength", Rounded(kept.strength, 4)},
          {"tokens", std::move(tokens)},
          {"places", map.places},
          {"shares", std::move(shares)}};
}

Json HeadScript(const AtlasParts& parts, size_t head) {
  const RowTotals& totals = parts.sums.totals[head];
  Json sequences = Json::array();
  for (size_t i = 0; i < parts.chosen[head].size(); ++i) {
    sequences.push_back(
        ShownSequence(parts, parts.chosen[head][i], parts.maps[head][i]));
  }
  Json json = {
      {"head", parts.report["heads"][head]},
      {"metrics", NumbersOf(parts.atlas.heads[head].metrics)},
      {"strengths", totals.strengths},
      {"mean_strength", Rounded(parts.atlas.heads[head].mean_strength, 4)},
      {"query_tokens", TokensJson(parts.sums.queries[head], parts.text)},
      {"key_tokens", TokensJson(parts.sums.keys[head], parts.text)},
      {"sequences", std::move(sequences)}};
  if (!parts.matches.empty()) {
    json["matches"] = MatchesJson(parts.matches[head], parts.text);
  }
  return json;
}

// Of all heads, for readers without script.
std::string PlainList(const AtlasParts& parts) {
  StudyTable table;
  table.columns = {"Head", "Role"};
  for (const char* name : FieldWords(HeadVisMetric{})) {
    table.columns.push_back(name);
  }
  for (const AtlasHead& one : parts.atlas.heads) {
    std::vector<std::string> row = {ToString(one.head), Escape(one.role)};
    for (const double value : one.metrics) {
      row.push_back(std::isfinite(value) ? PlainNumber(value) : "–");
    }
    table.rows.push_back(std::move(row));
  }
  return "<h1>" + Escape(parts.model) + "</h1>\n" + HtmlTable(table);
}

Json IndexJson(const AtlasParts& parts) {
  Json report = parts.report;
  report["heads"] = Json::array();
  Json heads = Json::array();
  for (size_t head = 0; head < parts.atlas.heads.size(); ++head) {
    heads.push_back(IndexEntry(parts, head));
  }
  return {{"format", "headwise.atlas/1"},
          {"report", std::move(report)},
          {"sequences", parts.atlas.sequences},
          {"tokens", parts.atlas.tokens},
          {"kept", parts.atlas.kept},
          {"intervals", parts.job.intervals},
          {"keys", parts.job.keys},
          {"least", parts.job.least},
          {"columns", MetricColumns()},
          {"heads", std::move(heads)}};
}

}  // namespace

void WriteAtlasPage(const std::filesystem::path& folder,
                    const AtlasParts& parts) {
  std::filesystem::create_directories(folder / "heads");
  for (size_t head = 0; head < parts.atlas.heads.size(); ++head) {
    WriteScript(
        folder / "heads" / (FileNameOf(parts.atlas.heads[head].head) + ".js"),
        "headwiseHead", HeadScript(parts, head));
  }
  WriteScript(folder / "atlas.js", "headwiseAtlas", IndexJson(parts));
  WriteFileAtomically(
      folder / "index.html",
      FillPlaces(AtlasTemplate(), {{"<!--plain-->", PlainList(parts)}}));
}

}  // namespace headwise

// Profiles as files: numbers as tensors "metric/NAME" f64 [heads, 6],
// "histogram" f64 [heads, buckets], "baselines" f64 [names, 6] and perhaps
// "mean_output" f64 [heads, width], everything else as JSON in the metadata.
// Door: profile.h.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/base/json.h"
#include "headwise/error.h"
#include "headwise/format/safetensors.h"
#include "headwise/head_ref.h"
#include "headwise/heads/profile/profile.h"
#include "headwise/observation.h"

namespace headwise {
namespace {

constexpr std::string_view kMetricPrefix = "metric/";
constexpr const char* kHistogram = "histogram";
constexpr const char* kBaselines = "baselines";
constexpr const char* kMeans = "mean_output";
constexpr int64_t kMostCount = int64_t{1} << 62;
// No model has more layers, nor more heads in one; what is made a layer stays
// small.
constexpr int64_t kMostPlaces = 1 << 16;

double* WriteTally(const Tally& t, double* to) {
  for (const double value : {t.n, t.w, t.x, t.ww, t.wx, t.xx}) *to++ = value;
  return to;
}

Tally ReadTally(const double* from, const std::string& where) {
  const Tally t = {from[0], from[1], from[2], from[3], from[4], from[5]};
  // Sequences are counted one by one: doubles hold them up to 2⁵³.
  constexpr double kMostSequences = 9007199254740992.0;
  if (t.n >= 0 && t.n <= kMostSequences && t.w >= 0 && t.ww >= 0 && t.xx >= 0) {
    return t;
  }
  throw Error(
      ErrorCode::kCorrupt,
      {where, "sequences up to 2^53, weights and squares from 0 on",
       fmt::format("{:g}, {:g}, {:g}, {:g}", t.n, t.w, t.ww, t.xx), ""});
}

Json ExampleJson(const Example& example) {
  Json keys = Json::array();
  for (const Example::Key& key : example.keys) {
    keys.push_back({key.position, key.token, key.mass});
  }
  return {{"kind", example.kind},
          {"score", example.score},
          {"hash", example.hash},
          {"query", example.query},
          {"first", example.first},
          {"tokens", example.tokens},
          {"keys", keys}};
}

uint64_t ReadHash(const JsonCursor& json) {
  if (!json.value().is_number_unsigned()) json.Fail("an unsigned number");
  return json.value().get<uint64_t>();
}

Example ReadExample(const JsonCursor& json) {
  Example example;
  example.kind = json["kind"].String();
  example.score = json["score"].Number();
  example.hash = ReadHash(json["hash"]);
  example.query = json["query"].Int(0, kMostCount);
  example.first = json["first"].Int(0, kMostCount);
  for (const JsonCursor& token : json["tokens"].Items()) {
    example.tokens.push_back(token.String());
  }
  for (const JsonCursor& key : json["keys"].Items()) {
    const std::vector<JsonCursor> parts = key.Items();
    if (parts.size() != 3) key.Fail("[position, token, mass]");
    example.keys.push_back(
        {parts[0].Int(0, kMostCount), parts[1].String(), parts[2].Number()});
  }
  return example;
}

Json HeadsJson(const Profile& profile) {
  Json heads = Json::array();
  for (size_t h = 0; h < profile.heads.size(); ++h) {
    const HeadRef& head = profile.heads[h];
    Json sinks = Json::object();
    for (const auto& [token, count] : profile.sinks[h]) sinks[token] = count;
    Json examples = Json::array();
    for (const Example& example : profile.examples[h]) {
      examples.push_back(ExampleJson(example));
    }
    heads.push_back({{"kind", Name(head.kind)},
                     {"layer", head.layer},
                     {"head", head.head},
                     {"sinks", sinks},
                     {"examples", examples}});
  }
  return heads;
}

AttentionKind ReadKind(const JsonCursor& json) {
  for (const AttentionKind kind :
       {AttentionKind::kSelf, AttentionKind::kDecoder, AttentionKind::kCross}) {
    if (json.String() == Name(kind)) return kind;
  }
  json.Fail("self, decoder or cross");
}

void ReadHeads(const JsonCursor& json, Profile& profile) {
  const std::vector<JsonCursor> items = json.Items();
  if (items.empty()) json.Fail("at least one head");
  std::vector<HeadRef> heads;
  std::set<HeadRef> known;
  for (const JsonCursor& head : items) {
    const HeadRef ref = {ReadKind(head["kind"]),
                         head["layer"].Int(0, kMostPlaces - 1),
                         head["head"].Int(0, kMostPlaces - 1)};
    if (!known.insert(ref).second) head.Fail("each head once");
    heads.push_back(ref);
  }
  profile = Profile(std::move(heads));
  for (size_t h = 0; h < items.size(); ++h) {
    const JsonCursor sinks = items[h]["sinks"];
    if (!sinks.value().is_object()) sinks.Fail("an object");
    for (const auto& [token, count] : sinks.value().items()) {
      profile.sinks[h][token] =
          JsonCursor(count, sinks.where()).Int(0, kMostCount);
    }
    for (const JsonCursor& example : items[h]["examples"].Items()) {
      profile.examples[h].push_back(ReadExample(example));
    }
  }
}

// The numbers of a tensor f64 [rows, columns]; throws Error(kCorrupt).
const double* Numbers(const Safetensors& file, const std::string& name,
                      int64_t rows, int64_t columns) {
  const ConstTensorView view = file.At(name);
  if (view.type != DType::kF64 || view.rank != 2 || view.shape[0] != rows ||
      view.shape[1] != columns) {
    throw Error(ErrorCode::kCorrupt, {file.where() + ": " + name,
                                      "f64 [" + std::to_string(rows) + ", " +
                                          std::to_string(columns) + "]",
                                      ToString(view), ""});
  }
  const double* numbers = view.As<double>();
  for (int64_t i = 0; i < rows * columns; ++i) {
    if (std::isfinite(numbers[i])) continue;
    throw Error(ErrorCode::kCorrupt,
                {file.where() + ": " + name, "finite numbers",
                 std::to_string(numbers[i]), ""});
  }
  return numbers;
}

// The tensors of a file to be.
class Tensors {
 public:
  double* Add(std::string name, size_t rows, int64_t columns) {
    memory_.emplace_back(DType::kF64, std::initializer_list<int64_t>{
                                          static_cast<int64_t>(rows), columns});
    named_.push_back({std::move(name), std::as_const(memory_.back()).view()});
    return memory_.back().As<double>();
  }
  void AddSums(const Profile& profile) {
    for (const auto& [name, tallies] : profile.metrics) {
      double* to = Add(std::string(kMetricPrefix) + name, tallies.size(),
                       Tally::kNumbers);
      for (const Tally& tally : tallies) to = WriteTally(tally, to);
    }
    if (profile.histograms.empty()) return;
    double* to = Add(kHistogram, profile.histograms.size(), kHistogramBuckets);
    for (const auto& histogram : profile.histograms) {
      to = std::copy(histogram.begin(), histogram.end(), to);
    }
  }
  std::vector<NamedTensor> Take() { return std::move(named_); }

 private:
  std::vector<NamedTensor> named_;
  std::vector<Tensor> memory_;
};

void ReadSums(const Safetensors& file, Profile& profile) {
  const auto heads = std::ssize(profile.heads);
  for (const auto& [name, view] : file.tensors()) {
    if (!name.starts_with(kMetricPrefix)) continue;
    const double* from = Numbers(file, name, heads, Tally::kNumbers);
    for (Tally& tally : profile.Tallies(name.substr(kMetricPrefix.size()))) {
      tally = ReadTally(from, file.where() + ": " + name);
      from += Tally::kNumbers;
    }
  }
  const double* from = Numbers(file, kHistogram, heads, kHistogramBuckets);
  for (std::vector<double>& histogram : profile.histograms) {
    histogram.assign(from, from + kHistogramBuckets);
    from += kHistogramBuckets;
  }
}

}  // namespace

void Profile::Save(const std::filesystem::path& path) const {
  Tensors tensors;
  tensors.AddSums(*this);
  Json baseline_names = Json::array();
  if (!baselines.empty()) {
    double* to = tensors.Add(kBaselines, baselines.size(), Tally::kNumbers);
    for (const auto& [name, tally] : baselines) {
      baseline_names.push_back(name);
      to = WriteTally(tally, to);
    }
  }
  if (!mean_outputs.empty()) {
    double* to = tensors.Add(kMeans, mean_outputs.size(),
                             std::ssize(mean_outputs.front()));
    for (const std::vector<double>& mean : mean_outputs) {
      to = std::copy(mean.begin(), mean.end(), to);
    }
  }
  Json json = {{"model", {{"name", model}, {"hash", model_hash}}},
               {"settings",
                {{"metrics", Name(settings.metrics)},
                 {"context", settings.context},
                 {"min_visible", settings.min_visible},
                 {"repeats", settings.repeats},
                 {"sentences", settings.sentences}}},
               {"counts",
                {{"documents", counts.documents},
                 {"windows", counts.windows},
                 {"tokens", counts.tokens},
                 {"text_key", counts.text_key}}},
               {"baselines", baseline_names},
               {"heads", HeadsJson(*this)}};
  if (settings.bos) json["settings"]["bos"] = *settings.bos;
  // Token texts may hold half a character, cut by a byte-level vocabulary.
  WriteSafetensors(path, tensors.Take(),
                   {{"format", kFormat}, {"profile", json.dump()}});
}

Profile Profile::Load(const std::filesystem::path& path) {
  const Safetensors file = Safetensors::Open(path);
  const auto format = file.metadata().find("format");
  const auto text = file.metadata().find("profile");
  if (format == file.metadata().end() || format->second != kFormat ||
      text == file.metadata().end()) {
    throw Error(ErrorCode::kCorrupt,
                {path.string(), std::string("a file of ") + kFormat,
                 format == file.metadata().end() ? "a file without a format"
                                                 : format->second,
                 "headwise profile writes one"});
  }
  const std::string where = path.string() + ": profile";
  const Json json = ParseJson(text->second, where);
  const JsonCursor root(json, where);
  Profile profile;
  ReadHeads(root["heads"], profile);
  profile.model = root["model"]["name"].String();
  profile.model_hash = root["model"]["hash"].String();
  const JsonCursor settings = root["settings"];
  // Absent in older files.
  if (settings.String("metrics", "all") == Name(MetricSet::kCore)) {
    profile.settings.metrics = MetricSet::kCore;
  }
  profile.settings.sentences = settings.Bool("sentences", false);
  if (const auto bos = settings.Find("bos")) {
    profile.settings.bos = static_cast<int32_t>(bos->Int(-1, INT32_MAX));
  }
  profile.settings.context = settings["context"].Int(0, kMostCount);
  profile.settings.min_visible = settings["min_visible"].Int(0, kMostCount);
  profile.settings.repeats = settings["repeats"].Int(0, kMostCount);
  const JsonCursor counts = root["counts"];
  profile.counts.documents = counts["documents"].Int(0, kMostCount);
  profile.counts.windows = counts["windows"].Int(0, kMostCount);
  profile.counts.tokens = counts["tokens"].Int(0, kMostCount);
  profile.counts.text_key = ReadHash(counts["text_key"]);

  const int64_t heads = static_cast<int64_t>(profile.heads.size());
  ReadSums(file, profile);
  if (file.tensors().contains(kMeans)) {
    const int64_t width = file.At(kMeans).shape[1];
    const double* from = Numbers(file, kMeans, heads, width);
    for (int64_t h = 0; h < heads; ++h, from += width) {
      profile.mean_outputs.emplace_back(from, from + width);
    }
  }
  const std::vector<JsonCursor> names = root["baselines"].Items();
  if (!names.empty()) {
    const double* tallies = Numbers(
        file, kBaselines, static_cast<int64_t>(names.size()), Tally::kNumbers);
    for (const JsonCursor& name : names) {
      profile.baselines[name.String()] = ReadTally(tallies, file.where());
      tallies += Tally::kNumbers;
    }
  }
  return profile;
}

bool IsProfile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string head(4096, '\0');
  file.read(head.data(), std::ssize(head));
  head.resize(static_cast<size_t>(file.gcount()));
  return head.find(Profile::kFormat) != std::string::npos;
}

}  // namespace headwise

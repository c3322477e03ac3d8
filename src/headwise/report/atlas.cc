// Runs the passes of an atlas and the doors that it rests on. Door:
// include/headwise/atlas.h.
#include "headwise/atlas.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "headwise/api/keep.h"
#include "headwise/api/notices.h"
#include "headwise/api/state.h"
#include "headwise/api/text_input.h"
#include "headwise/base/fields.h"
#include "headwise/dist/group.h"
#include "headwise/error.h"
#include "headwise/heads/atlas/atlas_pass.h"
#include "headwise/model/head_ref.h"
#include "headwise/profile.h"
#include "headwise/rank.h"
#include "headwise/report/atlas_files.h"
#include "headwise/report/head_matches.h"
#include "headwise/report/report_json.h"
#include "headwise/runtime/windows.h"

namespace headwise {
namespace {

// As profiles cut texts: later positions of encoders were often hardly trained.
constexpr int64_t kEncoderTokens = 128;
constexpr int64_t kRankedTokens = 256;
constexpr size_t kWordsShown = 8;
constexpr int64_t kTokensEach = 6;
constexpr size_t kKeysMatched = 2048;

void RequireReadable(const Transformer& model, const TextInput& text) {
  RequireOneKind(text);
  const auto refuse = [](ErrorCode code, std::string expected,
                         std::string found, std::string hint) {
    throw Error(code, {"atlas", std::move(expected), std::move(found),
                       std::move(hint)});
  };
  if (!text.ids.empty()) {
    refuse(ErrorCode::kInvalidArgument, "texts or files", "ids", "");
  }
  if (std::ranges::find(text.files, "-") != text.files.end()) {
    refuse(ErrorCode::kInvalidArgument, "files or folders of text",
           "standard input",
           "the text is read more than once: save it in a file");
  }
  if (model.info().encoder_decoder) {
    refuse(ErrorCode::kUnsupported, "a model with one kind of attention",
           "an encoder–decoder", "`headwise report` takes it");
  }
  if (!model.has_tokenizer()) {
    refuse(ErrorCode::kNotFound, "a tokenizer beside the model", "none", "");
  }
}

TextInput WithContext(const Transformer& model, TextInput text) {
  const ModelConfig& config = model.state().checkpoint.config();
  if (text.context == 0 && !config.causal) {
    text.context = std::min(kEncoderTokens, ContextOf(config, 0));
  }
  text.context = ContextOf(config, text.context);
  return text;
}

std::string KeyOfText(const TextInput& text) {
  if (!text.files.empty()) return DescribeFiles(text.files);
  std::string all;
  for (const std::string& one : text.texts) {
    all += std::to_string(one.size()) + ":" + one;
  }
  return KeyOf(all);
}

// The text's windows one after another, in memory that does not grow with it.
class WindowReader {
 public:
  WindowReader(Transformer& model, const TextInput& text)
      : source_(SourceOf(text)),
        cutter_(model.tokenizer(), model.state().checkpoint.config(),
                {.context = text.context}),
        most_(text.tokens.value_or(0)) {
    TellPastContext(model, text.context);
    TellUnknownScript(model, source_);
  }

  std::optional<TokenWindow> Next() {
    if (most_ > 0 && tokens_ >= most_) return {};
    while (at_ == windows_.size()) {
      const std::optional<Document> document = source_.Next();
      if (!document) return {};
      windows_ = cutter_.Cut(*document);
      at_ = 0;
      for (const TokenWindow& window : windows_) {
        cut_ += static_cast<double>(window.source.size());
      }
    }
    TokenWindow window = std::move(windows_[at_++]);
    tokens_ += window.source.size();
    return window;
  }

  // Tokens of the whole text, by what was read of it; 0: not known.
  double expected() const {
    const auto all = static_cast<double>(source_.total_bytes());
    const auto read = static_cast<double>(source_.text_bytes());
    const double tokens =
        all > 0 && read > 0 ? cut_ * std::max(1.0, all / read) : 0;
    const auto most = static_cast<double>(most_);
    return most_ > 0 && (tokens <= 0 || most < tokens) ? most : tokens;
  }

 private:
  TextSource source_;
  WindowCutter cutter_;
  int64_t most_;
  int64_t tokens_ = 0;  // given
  double cut_ = 0;      // tokens of what was read
  std::vector<TokenWindow> windows_;
  size_t at_ = 0;
};

class AtlasMaker {
 public:
  AtlasMaker(Transformer& model, const TextInput& text,
             const std::filesystem::path& folder, const AtlasJob& job)
      : model_(model),
        state_(model.state()),
        text_(WithContext(model, text)),
        folder_(folder),
        job_(job),
        text_key_(KeyOfText(text_)),
        key_(KeyOf(text_key_ + SettingsOf(job) + Asked() + model.hash())) {}

  Atlas Make() {
    Atlas atlas = RunKept(model_, "atlas", job_, text_key_, Asked(),
                          [&](const PassOptions& pass) { return Run(pass); });
    if (job_.partial.file && state_.is_first()) {
      std::error_code ignored;
      for (const char* stage : {"profile", "rank"}) {
        std::filesystem::remove(StageFile(stage), ignored);
      }
    }
    return atlas;
  }

 private:
  std::string Asked() const {
    return " " + std::to_string(text_.context) + " " +
           std::to_string(text_.tokens.value_or(0));
  }

  // Where a stage with a state of its own keeps it.
  std::filesystem::path StageFile(const char* stage) const {
    return job_.partial.file->string() + "." + key_ + "." + stage;
  }
  // On all ranks, of the first's disk.
  bool GoesOn(const char* stage) const {
    std::string found = job_.partial.resume && job_.partial.file &&
                                std::filesystem::exists(StageFile(stage))
                            ? "1"
                            : "";
    if (state_.group != nullptr) state_.group->Broadcast(found);
    return !found.empty();
  }

  template <typename Job>
  Job JobOf() const {
    Job job;
    job.on_progress = job_.on_progress;
    job.stop = job_.stop;
    return job;
  }

  bool Skips(AtlasPart part) const {
    return std::ranges::find(job_.skip, part) != job_.skip.end();
  }

  Atlas Run(const PassOptions& pass) {
    const size_t heads = AllHeads(state_.model()).size();
    WindowReader reader(model_, text_);
    const AtlasSums sums = SumAtlas(
        state_.context, state_.model(), [&] { return reader.Next(); },
        text_.context, [&] { return reader.expected(); }, job_, pass);
    const auto chosen = ChooseSequences(sums, job_);
    const auto maps =
        MapSequences(state_.context, state_.model(), sums, chosen, job_, pass);
    parts_.emplace(ReportParts{.model = model_});
    for (const std::string& file : text_.files) {
      parts_->texts.push_back(std::filesystem::path(file).filename().string());
    }
    parts_->profile = MakeOrLoadProfile();
    Rank();
    if (!state_.is_first()) return {};
    parts_->roles = FindRoles(parts_->profile);
    ConfirmRoles(model_, parts_->roles, JobOf<ConfirmJob>());
    parts_->profile.histograms.resize(heads);
    for (size_t h = 0; h < heads; ++h) {
      const auto& distances = sums.totals[h].distances;
      parts_->profile.histograms[h].assign(distances.begin(), distances.end());
    }
    const auto matches = ReadWeights(sums);
    const Atlas atlas = Summary(sums, chosen);
    Write(atlas, sums, chosen, maps, matches);
    return atlas;
  }

  Profile MakeOrLoadProfile() const {
    if (job_.profile) {
      Profile profile = Profile::Load(*job_.profile);
      if (profile.model_hash == model_.hash() &&
          profile.heads == HeadsOf(model_)) {
        return profile;
      }
      throw Error(ErrorCode::kInvalidArgument,
                  {job_.profile->string(), "a profile of this model",
                   "one of " + profile.model, "profile this model anew"});
    }
    ProfileJob job = JobOf<ProfileJob>();
    if (GoesOn("profile")) return Profile::Load(StageFile("profile"));
    if (job_.partial.file) {
      const bool resume = GoesOn("windows");
      job.partial = {StageFile("windows"), job_.partial.checkpoint_seconds,
                     resume};
    }
    Profile profile = MakeProfile(model_, Beginning(job_.profile_tokens), job);
    if (job_.partial.file && state_.is_first()) {
      profile.Save(StageFile("profile"));
    }
    return profile;
  }

  // So many tokens of the text, where it is not shorter anyway; 0: all.
  TextInput Beginning(int64_t tokens) const {
    TextInput text = text_;
    const int64_t asked = text.tokens.value_or(0);
    if (tokens > 0) text.tokens = asked > 0 ? std::min(asked, tokens) : tokens;
    if (!text.tokens) text.tokens = 0;
    return text;
  }

  void Rank() {
    if (Skips(AtlasPart::kImportance)) {
      return parts_->absent.push_back(
          {"importance", "It was left out, as was asked."});
    }
    RankJob rank = JobOf<RankJob>();
    rank.profile = &parts_->profile;
    if (job_.partial.file) {
      const bool resume = GoesOn("rank");
      rank.partial = {StageFile("rank"), job_.partial.checkpoint_seconds,
                      resume};
    }
    TextInput text = Beginning(job_.rank_tokens);
    text.context = std::min(kRankedTokens, text.context);
    try {
      parts_->ranking = RankHeads(model_, text, rank);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnsupported &&
          error.code() != ErrorCode::kInvalidArgument) {
        throw;
      }
      parts_->absent.push_back({"importance", error.what()});
    }
  }

  // What heads write, for the report; what their queries match.
  std::vector<std::vector<TokenWrites>> ReadWeights(const AtlasSums& sums) {
    if (Skips(AtlasPart::kContent)) {
      parts_->absent.push_back({"content", "It was left out, as was asked."});
      return {};
    }
    std::vector<TokenWindow> windows;
    std::map<int32_t, int64_t> counts;
    for (const DrawnSequence& one : sums.drawn()) {
      windows.push_back(WindowOfIds(sums.ids(one.sequence)));
      for (const int32_t id : sums.ids(one.sequence)) ++counts[id];
    }
    const std::vector<int32_t> words =
        FrequentWords(model_.tokenizer(), windows, kWordsShown);
    if (words.empty()) {
      parts_->absent.push_back({"content", "The text holds no whole words."});
      return {};
    }
    std::vector<std::pair<int32_t, int64_t>> order(counts.begin(),
                                                   counts.end());
    std::ranges::stable_sort(order, std::greater<>(),
                             &std::pair<int32_t, int64_t>::second);
    std::vector<int32_t> keys;
    for (const auto& [id, count] : order) {
      if (keys.size() < kKeysMatched) keys.push_back(id);
    }
    parts_->contents =
        DescribeContents(state_.context, state_.model(), words, kTokensEach);
    return DescribeMatches(state_.context, state_.model(), words, keys,
                           kTokensEach);
  }

  Atlas Summary(const AtlasSums& sums,
                const std::vector<std::vector<KeptSequence>>& chosen) const {
    Atlas atlas;
    atlas.sequences = sums.counts.sequences;
    atlas.tokens = sums.counts.tokens;
    std::set<int64_t> kept;
    const std::vector<HeadRef> heads = AllHeads(state_.model());
    for (size_t h = 0; h < heads.size(); ++h) {
      for (const KeptSequence& one : chosen[h]) kept.insert(one.sequence);
      const auto& roles = parts_->roles[h].roles;
      atlas.heads.push_back(
          {heads[h], MetricsOf(sums.counts, sums.totals[h]),
           sums.totals[h].strength / static_cast<double>(sums.counts.sequences),
           roles.empty() ? kNoRole : roles[0].name});
    }
    atlas.kept = static_cast<int64_t>(kept.size());
    return atlas;
  }

  void Write(const Atlas& atlas, const AtlasSums& sums,
             const std::vector<std::vector<KeptSequence>>& chosen,
             const std::vector<std::vector<SparseMap>>& maps,
             const std::vector<std::vector<TokenWrites>>& matches) const {
    const Json report = ReportJson(*parts_);
    const TokenText text(state_.checkpoint.FindTokenizer());
    const AtlasParts parts{
        model_.info().name, job_,   atlas,   sums, chosen, maps,
        parts_->profile,    report, matches, text};
    try {
      WriteHeadVisData(folder_ / "data", parts);
      WriteAtlasPage(folder_, parts);
    } catch (const std::filesystem::filesystem_error& error) {
      throw Error(ErrorCode::kIo, {folder_.string(), "a folder to write to",
                                   error.code().message(), ""});
    }
  }

  Transformer& model_;
  Transformer::State& state_;
  const TextInput text_;
  const std::filesystem::path& folder_;
  const AtlasJob& job_;
  const std::string text_key_;
  const std::string key_;  // of this very work
  std::optional<ReportParts> parts_;
};

}  // namespace

Atlas MakeAtlas(Transformer& model, const TextInput& text,
                const std::filesystem::path& folder, const AtlasJob& job) {
  const ModelUse use(model);
  RequireWhole(model, "atlas");
  CheckFields(job, "atlas");
  RequireReadable(model, text);
  return AtlasMaker(model, text, folder, job).Make();
}

std::string JsonText(const Atlas& atlas) {
  Json heads = Json::array();
  const auto words = FieldWords(HeadVisMetric{});
  for (const AtlasHead& head : atlas.heads) {
    Json metrics = Json::object();
    for (size_t m = 0; m < kHeadVisMetrics; ++m) {
      metrics[words[m]] = FiniteOrNull(head.metrics[m]);
    }
    heads.push_back({{"layer", head.head.layer},
                     {"head", head.head.head},
                     {"metrics", std::move(metrics)},
                     {"mean_strength", FiniteOrNull(head.mean_strength)},
                     {"role", head.role}});
  }
  const Json json = {{"format", "headwise.atlas/1"},
                     {"sequences", atlas.sequences},
                     {"tokens", atlas.tokens},
                     {"kept", atlas.kept},
                     {"heads", std::move(heads)}};
  return json.dump();
}

}  // namespace headwise

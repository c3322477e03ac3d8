// Door: judge.h; CompareModels: include/headwise/evaluate.h.
#include "headwise/api/judge.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "headwise/api/keep.h"
#include "headwise/api/state.h"
#include "headwise/error.h"
#include "headwise/heads/importance/examples.h"
#include "headwise/heads/importance/loss_table.h"

namespace headwise {
namespace {

// All are compared with all.
constexpr size_t kMostSentences = 400;
constexpr int64_t kJudgeReplicates = 2000;

std::string FileNameOf(const std::string& path) {
  if (path == "-") return "standard input";
  const std::filesystem::path file(path);
  return (file.has_filename() ? file : file.parent_path()).filename().string();
}

// short_names: files by their names, not their paths.
std::string DomainName(const TextInput& text, bool short_names) {
  if (text.files.empty()) return text.ids.empty() ? "texts" : "ids";
  std::string name = short_names ? FileNameOf(text.files[0]) : text.files[0];
  if (text.files.size() > 1) {
    name += " and " + std::to_string(text.files.size() - 1) + " more";
  }
  return name;
}

// Whatever its paths are called; standard input by its name.
std::set<std::string> FilesOf(const TextInput& text) {
  std::set<std::string> files;
  for (const std::string& path : text.files) {
    if (path == "-") {
      files.insert(path);
      continue;
    }
    for (const std::filesystem::path& file : ListFiles({path})) {
      std::error_code unknown;
      const auto known = std::filesystem::weakly_canonical(file, unknown);
      files.insert(unknown ? file.string() : known.string());
    }
  }
  return files;
}

// Pieces between sentence ends and line ends, of four words at least.
std::vector<std::string_view> SentencesIn(std::string_view text) {
  std::vector<std::string_view> sentences;
  size_t begin = 0, words = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool last = i + 1 == text.size();
    const bool space = last || text[i + 1] == ' ' || text[i + 1] == '\n';
    if (space && c != ' ' && c != '\n') ++words;
    const bool ends =
        c == '\n' || last || (space && (c == '.' || c == '!' || c == '?'));
    if (!ends) continue;
    if (words >= 4) sentences.push_back(text.substr(begin, i + 1 - begin));
    begin = i + 1;
    words = 0;
  }
  return sentences;
}

// Of a window's own text.
std::string_view TextOf(const TokenRow& row) {
  if (row.text == nullptr) return {};
  size_t begin = std::string::npos, end = 0;
  for (int64_t i = 0; i < row.size(); ++i) {
    if (row.added[i] != 0) continue;
    begin = std::min<size_t>(begin, row.spans[i].begin);
    end = std::max<size_t>(end, row.spans[i].end);
  }
  if (begin >= end) return {};
  return std::string_view(*row.text).substr(begin, end - begin);
}

// As many of all windows, from the first on. Windows of ids have no text.
std::vector<TextExample> SentencesOf(const Transformer& model,
                                     std::span<const TokenWindow> windows) {
  const auto context = static_cast<size_t>(model.info().context);
  std::vector<TextExample> examples;
  std::set<std::string_view> known;
  for (const TokenWindow& window : windows) {
    for (const std::string_view sentence : SentencesIn(TextOf(window.source))) {
      if (examples.size() == kMostSentences) return examples;
      if (!known.insert(sentence).second) continue;
      Encoding encoding = model.Encode(sentence);
      if (encoding.size() < 2 || encoding.size() > context) continue;
      examples.push_back({.ids = std::move(encoding.ids),
                          .target = {},
                          .added = std::move(encoding.added)});
    }
  }
  return examples;
}

bool IsEncoder(const Model& model) {
  return !model.config().causal && !model.config().encoder_decoder();
}

[[noreturn]] void RefuseOther(const std::string& expected,
                              const std::string& found) {
  throw Error(ErrorCode::kInvalidArgument,
              {"against", expected, found,
               "a model is compared with the one that it was made of"});
}

void RequireAlike(const Model& whole, const Model& other) {
  const ModelConfig &a = whole.config(), &b = other.config();
  if (LossOf(whole) != LossOf(other) || a.causal != b.causal) {
    RefuseOther(std::string("a model that is judged by its ") +
                    Name(LossOf(other)) + " loss",
                std::string("one that is judged by its ") +
                    Name(LossOf(whole)) + " loss");
  }
  if (a.vocabulary != b.vocabulary) {
    RefuseOther(std::to_string(b.vocabulary) + " tokens of vocabulary",
                std::to_string(a.vocabulary));
  }
  if (a.width != b.width && IsEncoder(whole)) {
    RefuseOther("embeddings of width " + std::to_string(b.width),
                std::to_string(a.width));
  }
}

}  // namespace

std::vector<std::string> DomainsOf(std::span<const TextInput> texts) {
  std::vector<std::string> names;
  for (const TextInput& text : texts) {
    const std::string name = DomainName(text, true);
    const auto same = std::ranges::count_if(texts, [&](const auto& other) {
      return DomainName(other, true) == name;
    });
    if (same < 2) {
      names.push_back(name);
    } else if (text.files.empty()) {
      names.push_back(name + " " + std::to_string(names.size() + 1));
    } else {
      names.push_back(DomainName(text, false));
    }
  }
  return names;
}

void RequireOtherText(const TextInput& chooses, const TextInput& judges) {
  const std::set<std::string> own = FilesOf(chooses);
  for (const std::string& file : FilesOf(judges)) {
    if (!own.contains(file)) continue;
    throw Error(ErrorCode::kInvalidArgument,
                {"judge", "a text that does not choose heads", file,
                 "the last quarter of that text judges in any case"});
  }
}

Judge::Judge(Transformer& whole, std::span<const TokenWindow> windows,
             std::string domain, const CorpusOptions& options)
    : context_(whole.context()),
      domain_(std::move(domain)),
      seed_(options.seed),
      text_(whole.context(), whole.state().model(), ExamplesOf(windows),
            options) {
  if (!IsEncoder(whole.state().model())) return;
  sentences_ = SentencesOf(whole, windows);
  if (sentences_.size() < 2) sentences_.clear();
  embeddings_ = VectorsOf(context_, whole.state().model(), sentences_);
}

ModelJudgement Judge::Of(const Model& other) const {
  AgreementSums sums;
  const Evaluation loss = text_.Of(other, &sums);
  ModelJudgement result;
  result.domain = domain_;
  result.kind = loss.loss_kind;
  result.sequences = loss.sequences;
  result.tokens = loss.tokens;
  result.loss = {loss.loss, loss.closed, loss.change};
  if (!sums.divergence.empty()) {
    const PairedBootstrap bootstrap = text_.bootstrap();
    result.agreement.divergence = bootstrap.Ratio(sums.divergence);
    result.agreement.same_token = bootstrap.Share(sums.same_token);
  }
  if (!sentences_.empty()) AddSentences(other, result.agreement);
  return result;
}

void Judge::AddSentences(const Model& other, Agreement& agreement) const {
  const VectorAgreement alike =
      CompareVectors(embeddings_, VectorsOf(context_, other, sentences_));
  const PairedBootstrap bootstrap(std::vector<double>(sentences_.size(), 1.0),
                                  kJudgeReplicates, seed_);
  agreement.sentences = std::ssize(sentences_);
  agreement.cosine = bootstrap.Ratio(alike.cosine);
  agreement.same_neighbour = bootstrap.Share(alike.same_neighbour);
}

std::vector<ModelJudgement> CompareModels(Transformer& whole,
                                          Transformer& other,
                                          std::span<const TextInput> texts,
                                          const LossJob& job) {
  const ModelUse use_whole(whole), use_other(other);
  RequireWhole(whole, "evaluate");
  RequireWhole(other, "evaluate");
  RequireAlike(whole.state().model(), other.state().model());
  std::vector<JudgedInput> inputs;
  std::string key;
  for (const TextInput& text : texts) {
    inputs.push_back(JudgedInputOf(whole, text, job.seed));
    key += TextKey(inputs.back().examples) + ", ";
  }
  const auto run = [&](const PassOptions& pass) {
    const std::vector<std::string> domains = DomainsOf(texts);
    std::vector<ModelJudgement> rows;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Judge judge(whole, inputs[i].windows, domains[i],
                        CorpusOptionsOf(inputs[i], job.seed, pass));
      rows.push_back(judge.Of(other.state().model()));
    }
    return rows;
  };
  return RunKept(whole, "evaluate", job, key, other.hash(), run);
}

}  // namespace headwise

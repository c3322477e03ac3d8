// tokenizer.json in llama.cpp's words. Door: gguf.h.
//
// Two kinds are known there and here: byte-level pairs ("gpt2"), whose rule of
// cutting text llama.cpp has under names of its own, and pairs of SentencePiece
// ("llama"), which are joined by the score of what they become.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "headwise/base/json.h"
#include "headwise/error.h"
#include "headwise/export/gguf.h"
#include "headwise/model/text_frame.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;

enum TokenType : int64_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

// A rule of cutting and what llama.cpp calls it.
struct Rule {
  const char* pattern;
  const char* name;
};
constexpr Rule kRules[] = {
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     "llama-bpe"},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     "qwen2"},
};

struct Vocabulary {
  std::vector<std::string> tokens;
  std::vector<int64_t> types;
  std::vector<float> scores;  // of SentencePiece's
};

// Two tokens that become one.
struct Merge {
  std::string left, right;
  // "Ġ t", as merges.txt has them.
  std::string text() const { return left + " " + right; }
};

// "<0x0A>"
bool IsByte(const std::string& token) {
  return token.size() == 6 && token.starts_with("<0x") &&
         token.ends_with('>') &&
         token.find_first_not_of("0123456789ABCDEF", 3) == 5;
}

class Reader {
 public:
  Reader(const Checkpoint& checkpoint, fs::path file)
      : checkpoint_(checkpoint),
        file_(std::move(file)),
        json_(ReadJson(file_)),
        root_(json_, file_.string()) {}

  void AddTo(GgufWriter& writer) const {
    if (root_["model"].String("type", "BPE") != "BPE") {
      Refuse("a tokenizer of type BPE", root_["model"].String("type", ""));
    }
    const bool bytes = HasByteLevel();
    if (!bytes && !root_["model"].Bool("byte_fallback", false)) {
      Refuse("a tokenizer of bytes, or that falls back to them", "neither");
    }
    checkpoint_.tokenizer();  // throws where it is none
    const std::vector<Merge> merges = Merges();
    const Vocabulary words = Words(merges, bytes);
    writer.AddText("tokenizer.ggml.model", bytes ? "gpt2" : "llama");
    writer.AddText("tokenizer.ggml.pre", bytes ? Cutting() : "default");
    writer.AddTexts("tokenizer.ggml.tokens", words.tokens);
    writer.AddCounts("tokenizer.ggml.token_type", words.types);
    if (bytes) {
      std::vector<std::string> texts;
      for (const Merge& merge : merges) texts.push_back(merge.text());
      writer.AddTexts("tokenizer.ggml.merges", texts);
    } else {
      writer.AddNumbers("tokenizer.ggml.scores", words.scores);
      writer.AddFlag("tokenizer.ggml.add_space_prefix", PrependsSpace());
    }
    AddSpecial(writer);
  }

 private:
  [[noreturn]] void Refuse(const std::string& expected,
                           const std::string& found) const {
    throw Error(ErrorCode::kUnsupported,
                {file_.string(), expected, found,
                 "without its tokenizer (--no-tokenizer) the file takes ids"});
  }

  // The steps of pre_tokenizer or normalizer, one or a sequence of them.
  std::vector<JsonCursor> Steps(const char* key, const char* list) const {
    const auto step = root_.Find(key);
    if (!step) return {};
    if (step->String("type", "") != "Sequence") return {*step};
    return (*step)[list].Items();
  }

  bool HasByteLevel() const {
    for (const JsonCursor& step : Steps("pre_tokenizer", "pretokenizers")) {
      if (step.String("type", "") == "ByteLevel") return true;
    }
    return false;
  }

  bool PrependsSpace() const {
    for (const JsonCursor& step : Steps("normalizer", "normalizers")) {
      if (step.String("type", "") == "Prepend") return true;
    }
    for (const JsonCursor& step : Steps("pre_tokenizer", "pretokenizers")) {
      if (step.String("type", "") != "Metaspace") continue;
      return step.String("prepend_scheme", "always") != "never" &&
             step.Bool("add_prefix_space", true);
    }
    return false;
  }

  // What llama.cpp calls the rule by which text is cut.
  std::string Cutting() const {
    if (root_.Find("normalizer") &&
        root_["normalizer"].String("type", "") != "NFC") {
      Refuse("no normalizer, or NFC", root_["normalizer"].String("type", ""));
    }
    const auto steps = Steps("pre_tokenizer", "pretokenizers");
    const JsonCursor& last = steps.back();
    const bool own = last.String("type", "") == "ByteLevel" &&
                     last.Bool("use_regex", true) &&
                     !last.Bool("add_prefix_space", true);
    const std::string first = steps[0].String("type", "");
    if (steps.size() == 1 && own) return "gpt-2";
    if (steps.size() == 2 && own && first == "Digits" &&
        steps[0].Bool("individual_digits", false)) {
      return "smollm";
    }
    if (steps.size() == 2 && first == "Split" &&
        !last.Bool("add_prefix_space", true) && !last.Bool("use_regex", true)) {
      const std::string pattern = steps[0]["pattern"].String("Regex", "");
      for (const Rule& rule : kRules) {
        if (pattern == rule.pattern) return rule.name;
      }
    }
    Refuse(
        "a rule of cutting text that llama.cpp has (those of GPT-2, Llama "
        "3, Qwen 2, SmolLM)",
        Describe(root_["pre_tokenizer"].value()));
  }

  // llama.cpp takes a text with both for a pair cut at its first space but for
  // one at the very beginning.
  std::vector<Merge> Merges() const {
    std::vector<Merge> merges;
    for (const JsonCursor& item : root_["model"]["merges"].Items()) {
      Merge merge;
      if (item.value().is_string()) {
        const std::string& text = item.String();
        const size_t space = text.find(' ');
        if (space == text.npos) item.Fail("two tokens with a space between");
        merge = {text.substr(0, space), text.substr(space + 1)};
      } else {
        const auto pair = item.Items();
        if (pair.size() != 2) item.Fail("two tokens");
        merge = {pair[0].String(), pair[1].String()};
      }
      if (merge.text().find(' ', 1) != merge.left.size()) {
        item.Fail("two tokens without a space in the first");
      }
      merges.push_back(std::move(merge));
    }
    return merges;
  }

  Vocabulary Words(const std::vector<Merge>& merges, bool bytes) const {
    const auto size = static_cast<size_t>(checkpoint_.config().vocabulary);
    Vocabulary words;
    words.tokens.resize(size);
    words.types.assign(size, kUnused);
    words.scores.assign(size, 0);
    const auto put = [&](const std::string& token, int64_t id, TokenType type) {
      words.tokens[static_cast<size_t>(id)] = token;
      words.types[static_cast<size_t>(id)] = type;
    };
    const auto most = static_cast<int64_t>(size) - 1;
    std::map<std::string, int64_t> ids;
    const JsonCursor vocabulary = root_["model"]["vocab"];
    for (const auto& [token, number] : vocabulary.value().items()) {
      const JsonCursor place(number, vocabulary.where() + "." + token);
      const int64_t id = place.Int(0, most);
      if (words.types[static_cast<size_t>(id)] != kUnused) {
        place.Fail("an id that no other token has");
      }
      put(token, id, !bytes && IsByte(token) ? kByte : kNormal);
      ids[token] = id;
    }
    Score(merges, ids, words);
    if (const auto added = root_.Find("added_tokens")) {
      for (const JsonCursor& token : added->Items()) {
        // Where the model knows the token too, its id is the trained one.
        const auto known = ids.find(token["content"].String());
        const int64_t id = token["id"].Int(0, most);
        put(token["content"].String(), known == ids.end() ? id : known->second,
            token.Bool("special", false) ? kControl : kUserDefined);
      }
    }
    const auto unknown = root_["model"].Find("unk_token");
    if (!bytes && unknown && ids.contains(unknown->String())) {
      words.types[static_cast<size_t>(ids[unknown->String()])] = kUnknown;
    }
    NameEach(words);
    return words;
  }

  // llama.cpp ends where two tokens have one text, and gives those without one
  // a name. Ids that no token has get names that none has.
  void NameEach(Vocabulary& words) const {
    std::map<std::string, size_t> ids;
    for (size_t i = 0; i < words.tokens.size(); ++i) {
      if (words.tokens[i].empty()) continue;
      const auto [first, fresh] = ids.emplace(words.tokens[i], i);
      if (fresh) continue;
      Refuse("each token's text once", "\"" + words.tokens[i] + "\" as token " +
                                           std::to_string(first->second) +
                                           " and " + std::to_string(i));
    }
    for (size_t i = 0; i < words.tokens.size(); ++i) {
      if (!words.tokens[i].empty()) continue;
      std::string name = "[PAD" + std::to_string(i) + "]";
      while (!ids.emplace(name, i).second) name += '_';
      words.tokens[i] = std::move(name);
      words.types[i] = kUnused;
    }
  }

  // What is made first scores best; what is never made, worst.
  static void Score(const std::vector<Merge>& merges,
                    const std::map<std::string, int64_t>& ids,
                    Vocabulary& words) {
    std::fill(words.scores.begin(), words.scores.end(),
              -static_cast<float>(merges.size()));
    for (size_t rank = merges.size(); rank-- > 0;) {
      const auto found = ids.find(merges[rank].left + merges[rank].right);
      if (found == ids.end()) continue;
      words.scores[static_cast<size_t>(found->second)] =
          -static_cast<float>(rank);
    }
  }

  // llama.cpp would take a token of its own choice for one beyond them.
  void AddToken(const char* name, int64_t id, GgufWriter& writer) const {
    if (id < 0) return;
    if (id >= checkpoint_.config().vocabulary) {
      throw Error(
          ErrorCode::kUnsupported,
          {(checkpoint_.folder() / "config.json").string() + ": " + name,
           "a token below " + std::to_string(checkpoint_.config().vocabulary),
           std::to_string(id),
           "without its tokenizer (--no-tokenizer) the file takes ids"});
    }
    writer.AddCount(std::string("tokenizer.ggml.") + name, id);
  }

  void AddSpecial(GgufWriter& writer) const {
    const ModelConfig& config = checkpoint_.config();
    AddToken("bos_token_id", config.bos, writer);
    if (!config.eos.empty()) AddToken("eos_token_id", config.eos[0], writer);
    // Texts begin as they do here.
    const Encoding text = Framer(checkpoint_.tokenizer(), config).Encode("a");
    writer.AddFlag("tokenizer.ggml.add_bos_token",
                   !text.ids.empty() && text.ids[0] == config.bos);
    writer.AddFlag("tokenizer.ggml.add_eos_token", false);
    const fs::path more = checkpoint_.folder() / "tokenizer_config.json";
    if (!fs::exists(more)) return;
    const Json json = ReadJson(more);
    const auto chat = json.find("chat_template");
    if (chat != json.end() && chat->is_string()) {
      writer.AddText("tokenizer.chat_template", chat->get<std::string>());
    }
  }

  const Checkpoint& checkpoint_;
  fs::path file_;
  Json json_;
  JsonCursor root_;
};

}  // namespace

void AddGgufTokenizer(const Checkpoint& checkpoint, GgufWriter& writer) {
  const fs::path file = checkpoint.folder() / "tokenizer.json";
  if (!fs::exists(file)) {
    throw Error(ErrorCode::kUnsupported,
                {checkpoint.folder().string(), "a tokenizer.json", "none",
                 "without its tokenizer (--no-tokenizer) the file takes ids"});
  }
  Reader(checkpoint, file).AddTo(writer);
}

}  // namespace headwise

// Text to token ids and back: Tokenizer::Load reads every kind of vocabulary
// that a model's folder may hold.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/export.h"

namespace headwise {

using TokenId = int32_t;

/// Bytes [begin, end) of the text that was encoded.
struct TextSpan {
  uint32_t begin = 0;
  uint32_t end = 0;
  bool operator==(const TextSpan&) const = default;
};

/// The tokens of a text: arrays of one length, one entry per token.
struct Encoding {
  std::vector<TokenId> ids = {};
  /// The token's bytes in the original text, through every normalisation.
  /// Always whole characters; {0, 0} for tokens that the template added.
  std::vector<TextSpan> spans = {};
  /// 0 or 1: which of two texts, as BERT's segment embedding wants it.
  std::vector<int32_t> segments = {};
  /// 1 for tokens that the template added ([CLS], `<s>`, …).
  std::vector<uint8_t> added = {};

  size_t size() const { return ids.size(); }
};

struct EncodeOptions {
  /// Surround the text as the model expects it ([CLS] … [SEP], `<s>` …).
  bool add_special_tokens = true;
};

struct DecodeOptions {
  /// Leave out [CLS], `<s>`, `<|endoftext|>` and their like.
  bool skip_special_tokens = true;
};

/// Whether texts begin with the model's begin token.
enum class BosChoice { kAuto, kYes, kNo };
constexpr std::array<const char*, 3> FieldWords(BosChoice) {
  return {"auto", "yes", "no"};
}

struct BosFacts {
  BosChoice asked = BosChoice::kAuto;  ///< by who loaded the tokenizer
  /// From tokenizer_config.json:
  std::optional<bool> add = {};           ///< "add_bos_token"
  std::optional<std::string> token = {};  ///< "bos_token"
  bool null_token = false;                ///< "bos_token": null
  bool opens_chat = false;                ///< the chat template begins with it
};

struct TokenizerOptions {
  /// Whether texts begin with the model's begin token. kAuto: by the files.
  BosChoice bos = BosChoice::kAuto;
};

/// Immutable after Load: any number of threads may use one tokenizer.
class HEADWISE_API Tokenizer {
 public:
  /// `path` is a checkpoint folder or one file: tokenizer.json, vocab.json
  /// (merges.txt or vocab.bpe beside it), vocab.txt, *.model or *.spm
  /// (SentencePiece), tok*.bin (llama2.c). In a folder the first of these, in
  /// this order, is taken. Throws Error: kNotFound, kIo, kCorrupt (naming file
  /// and key), kUnsupported for parts no reader knows.
  static std::unique_ptr<Tokenizer> Load(const std::filesystem::path& path,
                                         TokenizerOptions options = {});
  /// Loads a folder's tokenizer; null where it holds none.
  static std::unique_ptr<Tokenizer> Find(const std::filesystem::path& folder,
                                         TokenizerOptions options = {});

  virtual ~Tokenizer() = default;

  /// Throws Error(kInvalidArgument) for text that is not UTF-8 or is longer
  /// than 4 GiB, and Error(kUnsupported) where the tokenizer's rules make too
  /// much of it. Adds what the tokenizer's own template adds; what a
  /// model wants around a text is added by Transformer::Encode (model.h).
  virtual Encoding Encode(std::string_view text,
                          EncodeOptions options = {}) const = 0;
  /// Two texts in one sequence, by the template's rule for pairs. Spans of the
  /// second text count from its own start.
  virtual Encoding EncodePair(std::string_view first, std::string_view second,
                              EncodeOptions options = {}) const = 0;

  /// Ids that stand for nothing are passed over. Bytes that make no character
  /// become U+FFFD.
  virtual std::string Decode(std::span<const TokenId> ids,
                             DecodeOptions options = {}) const = 0;

  /// The largest id plus one: the rows an embedding must have.
  virtual TokenId vocab_size() const = 0;
  /// The token as the vocabulary writes it ("Ġthe", "##ing", "<0x0A>").
  virtual std::optional<std::string> Token(TokenId id) const = 0;
  virtual std::optional<TokenId> Id(std::string_view token) const = 0;
  /// Whether Decode leaves it out when asked to skip special tokens.
  virtual bool IsSpecial(TokenId id) const = 0;
  /// The token for characters that the vocabulary does not know, if any.
  virtual std::optional<TokenId> unknown() const { return std::nullopt; }

  /// Facts about the token that begins texts.
  const BosFacts& bos() const { return bos_; }

 private:
  BosFacts bos_;
};

/// The text of a token ("Ġthe" for " the", "<0x0A>" for a line's end);
/// special ones as the vocabulary writes them, bytes of a part of a character
/// as "⟨e8 b9⟩", "" for an id of no token.
HEADWISE_API std::string PieceText(const Tokenizer& tokenizer, TokenId id);

/// A warning where most letters of a text's beginning are unknown to the
/// tokenizer, or known only as bytes: it was not made for that script. Else "".
HEADWISE_API std::string UnknownScriptNotice(const Tokenizer& tokenizer,
                                             std::string_view text);

}  // namespace headwise

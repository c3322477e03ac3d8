// Tokenizers over the SentencePiece library. Door: sentencepiece.h.
#include "headwise/tokenizer/sentencepiece.h"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <utility>

#include "headwise/base/json.h"
#include "headwise/base/mapped_file.h"
#include "headwise/error.h"
#include "headwise/tokenizer/pipeline.h"
#include "headwise/tokenizer/sentencepiece_check.h"
#include "headwise/tokenizer/vocabulary.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;
using Processor = sentencepiece::SentencePieceProcessor;

std::unique_ptr<Processor> LoadProcessor(const fs::path& path) {
  const MappedFile file(path);
  CheckSentencePiece(file.text(), path.string());
  auto processor = std::make_unique<Processor>();
  const auto status = processor->LoadFromSerializedProto(file.text());
  if (!status.ok()) {
    throw Error(ErrorCode::kCorrupt, {path.string(), "a SentencePiece model",
                                      status.ToString(), ""});
  }
  return processor;
}

// Ids as the model has them, or as another file numbers its pieces.
struct Numbering {
  std::optional<Vocabulary> vocabulary;
  TokenId unknown = kNoToken;

  TokenId IdOf(const Processor& model, int piece) const {
    if (!vocabulary) return piece;
    const TokenId id = vocabulary->Find(model.IdToPiece(piece));
    return id == kNoToken ? unknown : id;
  }
};

struct SentencePieceParts {
  std::unique_ptr<Processor> encoder;
  std::unique_ptr<Processor> decoder;  // null: the encoder decodes too
  Numbering numbering;
  std::vector<TokenId> before;
  std::vector<TokenId> after;
};

class SentencePieceTokenizer : public Tokenizer {
 public:
  explicit SentencePieceTokenizer(SentencePieceParts parts)
      : parts_(std::move(parts)),
        surround_(MakeSurroundProcessor(parts_.before, parts_.after)) {}

  Encoding Encode(std::string_view text, EncodeOptions options) const override {
    std::vector<EncodedPart> parts;
    parts.push_back(EncodeText(text));
    surround_->Process(parts, nullptr, options.add_special_tokens);
    return JoinParts(parts);
  }

  Encoding EncodePair(std::string_view first, std::string_view second,
                      EncodeOptions options) const override {
    std::vector<EncodedPart> parts;
    parts.push_back(EncodeText(first));
    parts.push_back(EncodeText(second));
    surround_->Process(parts, nullptr, options.add_special_tokens);
    return JoinParts(parts);
  }

  std::string Decode(std::span<const TokenId> ids,
                     DecodeOptions options) const override {
    std::vector<std::string> pieces;
    for (TokenId id : ids) {
      const auto token = Token(id);
      if (!token || (options.skip_special_tokens && IsSpecial(id))) continue;
      pieces.push_back(*token);
    }
    return decoder().DecodePieces(pieces);
  }

  TokenId vocab_size() const override {
    return parts_.numbering.vocabulary ? parts_.numbering.vocabulary->size()
                                       : parts_.encoder->GetPieceSize();
  }

  std::optional<std::string> Token(TokenId id) const override {
    if (parts_.numbering.vocabulary) {
      const std::string* token = parts_.numbering.vocabulary->Token(id);
      return token == nullptr ? std::nullopt : std::optional(*token);
    }
    if (id < 0 || id >= vocab_size()) return std::nullopt;
    return parts_.encoder->IdToPiece(id);
  }

  std::optional<TokenId> Id(std::string_view token) const override {
    TokenId id = kNoToken;
    if (parts_.numbering.vocabulary) {
      id = parts_.numbering.vocabulary->Find(token);
    } else {
      id = parts_.encoder->PieceToId(token);
      // Unknown pieces get the unknown id, which is not an answer.
      if (parts_.encoder->IdToPiece(id) != token) id = kNoToken;
    }
    return id == kNoToken ? std::nullopt : std::optional(id);
  }

  bool IsSpecial(TokenId id) const override {
    const auto token = Token(id);
    if (!token) return false;
    if (parts_.numbering.vocabulary) {
      return *token == "</s>" || *token == "<pad>";
    }
    return parts_.encoder->IsControl(id);
  }

  std::optional<TokenId> unknown() const override {
    return parts_.numbering.vocabulary ? parts_.numbering.unknown
                                       : parts_.encoder->unk_id();
  }

 private:
  const Processor& decoder() const {
    return parts_.decoder != nullptr ? *parts_.decoder : *parts_.encoder;
  }

  EncodedPart EncodeText(std::string_view text) const {
    CheckText(text);
    EncodedPart part;
    part.text = text;
    const auto result = parts_.encoder->EncodeAsImmutableProto(text);
    for (const auto& piece : result.pieces()) {
      part.encoding.ids.push_back(
          parts_.numbering.IdOf(*parts_.encoder, static_cast<int>(piece.id())));
      part.encoding.spans.push_back({piece.begin(), piece.end()});
    }
    part.encoding.segments.assign(part.encoding.size(), 0);
    part.encoding.added.assign(part.encoding.size(), 0);
    return part;
  }

  SentencePieceParts parts_;
  std::unique_ptr<PostProcessor> surround_;
};

}  // namespace

std::unique_ptr<Tokenizer> ReadSentencePiece(const fs::path& path) {
  SentencePieceParts parts;
  parts.encoder = LoadProcessor(path);
  const TokenId bos = parts.encoder->bos_id();
  const TokenId eos = parts.encoder->eos_id();
  bool add_bos = bos >= 0;
  bool add_eos = bos < 0;
  const fs::path config = path.parent_path() / "tokenizer_config.json";
  std::error_code ignored;
  if (fs::exists(config, ignored)) {
    const Json json = ReadJson(config);
    const JsonCursor root(json, config.string());
    add_bos = root.Bool("add_bos_token", add_bos);
    add_eos = root.Bool("add_eos_token", add_eos);
  }
  if (add_bos && bos >= 0) parts.before = {bos};
  if (add_eos && eos >= 0) parts.after = {eos};
  return std::make_unique<SentencePieceTokenizer>(std::move(parts));
}

std::unique_ptr<Tokenizer> ReadMarian(const fs::path& folder) {
  SentencePieceParts parts;
  parts.encoder = LoadProcessor(folder / "source.spm");
  parts.decoder = LoadProcessor(folder / "target.spm");
  const fs::path path = folder / "vocab.json";
  const Json json = ReadJson(path);
  parts.numbering.vocabulary = Vocabulary::FromJson({json, path.string()});
  CheckIds(parts.numbering.vocabulary->size() - 1,
           parts.numbering.vocabulary->count(), path.string());
  const auto find = [&](const char* token) {
    const TokenId id = parts.numbering.vocabulary->Find(token);
    if (id == kNoToken) {
      throw Error(
          ErrorCode::kCorrupt,
          {path.string(), "the token " + std::string(token), "none", ""});
    }
    return id;
  };
  parts.numbering.unknown = find("<unk>");
  parts.after = {find("</s>")};
  return std::make_unique<SentencePieceTokenizer>(std::move(parts));
}

}  // namespace headwise

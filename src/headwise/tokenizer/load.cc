// Tokenizer::Load: which reader a path asks for. Door: tokenizer.h.
#include <algorithm>
#include <vector>

#include "headwise/error.h"
#include "headwise/tokenizer/sentencepiece.h"
#include "headwise/tokenizer/tokenizer.h"
#include "headwise/tokenizer/tokenizer_json.h"
#include "headwise/tokenizer/vocabulary_files.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;

bool Exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// Models that fairseq trained (XLM-R, CamemBERT, mBART) have other ids than
// this file, which does not say which.
constexpr const char* kFairseqPieces = "sentencepiece.bpe.model";

bool IsLlama2c(const fs::path& path) {
  return path.extension() == ".bin" &&
         path.filename().string().starts_with("tok");
}

// The merges beside a vocab.json, by either of their names; may be missing.
fs::path MergesBeside(const fs::path& vocab) {
  const fs::path merges = vocab.parent_path() / "merges.txt";
  return Exists(merges) ? merges : vocab.parent_path() / "vocab.bpe";
}

std::unique_ptr<Tokenizer> LoadFile(const fs::path& path) {
  const std::string name = path.filename().string();
  if (name == "vocab.json") return ReadVocabJson(path, MergesBeside(path));
  if (path.extension() == ".json") return ReadTokenizerJson(path);
  if (path.extension() == ".txt") return ReadVocabTxt(path);
  if (path.extension() == ".model" || path.extension() == ".spm") {
    return ReadSentencePiece(path);
  }
  if (IsLlama2c(path)) return ReadLlama2c(path);
  throw Error(ErrorCode::kUnsupported,
              {path.string(),
               "tokenizer.json, vocab.json, vocab.txt, *.model, *.spm or "
               "tok*.bin",
               path.filename().string(), "rename the file after its kind"});
}

// The first file of the folder, by name, that `wanted` accepts.
template <typename Wanted>
fs::path FindFile(const fs::path& folder, Wanted wanted) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (wanted(entry.path())) found.push_back(entry.path());
  }
  return found.empty() ? fs::path()
                       : *std::min_element(found.begin(), found.end());
}

std::unique_ptr<Tokenizer> LoadFolder(const fs::path& folder) {
  if (Exists(folder / "tokenizer.json")) {
    return ReadTokenizerJson(folder / "tokenizer.json");
  }
  const fs::path vocab = folder / "vocab.json";
  if (Exists(vocab) && Exists(MergesBeside(vocab))) return LoadFile(vocab);
  if (Exists(vocab) && Exists(folder / "source.spm")) return ReadMarian(folder);
  if (Exists(folder / "vocab.txt")) return LoadFile(folder / "vocab.txt");
  const fs::path model = FindFile(folder, [](const fs::path& path) {
    return path.extension() == ".model" && path.filename() != kFairseqPieces;
  });
  if (!model.empty()) return LoadFile(model);
  const fs::path llama2c = FindFile(folder, IsLlama2c);
  if (!llama2c.empty()) return LoadFile(llama2c);
  const bool fairseq = Exists(folder / kFairseqPieces);
  throw Error(
      ErrorCode::kNotFound,
      {folder.string(),
       "tokenizer.json, vocab.json with merges.txt, vocab.txt, "
       "*.model or tok*.bin",
       fairseq ? std::string(kFairseqPieces) + ", whose ids are not the model's"
               : "none of them",
       fairseq ? "transformers' AutoTokenizer writes a tokenizer.json"
               : "copy the tokenizer's files beside the model"});
}

}  // namespace

std::unique_ptr<Tokenizer> Tokenizer::Load(const fs::path& path,
                                           TokenizerOptions options) {
  std::error_code ignored;
  const bool is_folder = fs::is_directory(path, ignored);
  std::unique_ptr<Tokenizer> tokenizer =
      is_folder ? LoadFolder(path) : LoadFile(path);
  tokenizer->bos_ = ReadBosFacts(is_folder ? path : path.parent_path());
  tokenizer->bos_.asked = options.bos;
  return tokenizer;
}

std::unique_ptr<Tokenizer> Tokenizer::Find(const fs::path& folder,
                                           TokenizerOptions options) {
  try {
    return Load(folder, options);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNotFound) throw;
    return nullptr;
  }
}

}  // namespace headwise

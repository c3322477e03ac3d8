// Token streams. Door: corpus.h.
#include "headwise/train/corpus.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/base/mapped_file.h"
#include "headwise/error.h"
#include "headwise/format/token_ids.h"
#include "headwise/tensor/host_span.h"
#include "headwise/tensor/slice.h"
#include "headwise/train/text_batches.h"

namespace headwise {
namespace {

using Path = std::filesystem::path;

struct StateFree {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

std::vector<int32_t> Tokens(const Tokenizer& tokenizer, const Path& path) {
  std::vector<int32_t> ids;
  for (const Document& document : ReadDocuments(path)) {
    const std::vector<int32_t> more =
        tokenizer.Encode(document.text, {.add_special_tokens = false}).ids;
    ids.insert(ids.end(), more.begin(), more.end());
  }
  return ids;
}

std::vector<std::vector<int32_t>> TokenizeAll(Context& context,
                                              const Tokenizer& tokenizer,
                                              const std::vector<Path>& files,
                                              const OnProgress& progress) {
  std::vector<std::vector<int32_t>> streams(files.size());
  std::mutex mutex;
  double done = 0;
  const auto total = static_cast<double>(files.size());
  context.pool().ParallelFor(static_cast<int64_t>(files.size()),
                             [&](int64_t i, int) {
                               streams[i] = Tokens(tokenizer, files[i]);
                               std::lock_guard lock(mutex);
                               done += 1;
                               if (progress) progress("tokenize", done, total);
                             });
  return streams;
}

NamedTensor Named(const char* name, const std::vector<int32_t>& ids) {
  return {name, ViewOf(ids)};
}

}  // namespace

std::string HashData(const TrainConfig& config, const Tokenizer& tokenizer) {
  std::vector<Path> files = ListFiles(config.data);
  const std::vector<int32_t> probe =
      tokenizer.Encode("The 3 cats, Ünïcode\n\tdon't sit—still!").ids;
  const std::string more =
      fmt::format("{};{};{};{}", files.size(), config.hold_out,
                  tokenizer.vocab_size(), fmt::join(probe, ","));
  for (const Path& held : ListFiles(config.validation)) files.push_back(held);
  const std::unique_ptr<XXH3_state_t, StateFree> state(XXH3_createState());
  XXH3_128bits_reset(state.get());
  for (const Path& path : files) {
    const MappedFile file(path);
    const std::string size = std::to_string(file.size()) + ";";
    XXH3_128bits_update(state.get(), size.data(), size.size());
    if (file.size() > 0) {
      XXH3_128bits_update(state.get(), file.data(), file.size());
    }
  }
  XXH3_128bits_update(state.get(), more.data(), more.size());
  const XXH128_hash_t hash = XXH3_128bits_digest(state.get());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

Corpus Corpus::Open(Context& context, const TrainConfig& config,
                    const Tokenizer& tokenizer, const Path& cache,
                    const OnProgress& progress) {
  const std::vector<Path> files = ListFiles(config.data);
  const std::vector<Path> held = ListFiles(config.validation);
  std::vector<Path> all = files;
  all.insert(all.end(), held.begin(), held.end());
  Corpus corpus;
  corpus.hash_ = HashData(config, tokenizer);
  if (corpus.Read(cache, config.sequence, tokenizer.vocab_size())) {
    return corpus;
  }
  std::vector<int32_t> train, validation;
  const std::vector<std::vector<int32_t>> streams =
      TokenizeAll(context, tokenizer, all, progress);
  const auto hold_out = static_cast<size_t>(held.empty() ? config.hold_out : 0);
  const bool by_file = hold_out > 0 && files.size() >= hold_out;
  for (size_t i = 0; i < streams.size(); ++i) {
    const bool kept =
        i >= files.size() || (by_file && i % hold_out == hold_out - 1);
    std::vector<int32_t>& to = kept ? validation : train;
    to.insert(to.end(), streams[i].begin(), streams[i].end());
  }
  if (hold_out > 0 && !by_file) {
    const size_t kept = train.size() / std::max<size_t>(hold_out, 2);
    validation.assign(train.end() - static_cast<int64_t>(kept), train.end());
    train.resize(train.size() - kept);
  }
  if (train.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                {"training data", "some text", "none",
                 "name files with text in `data`"});
  }
  RequireSequence(train.size(), config.sequence);
  WriteSafetensors(cache,
                   {Named("train", train), Named("validation", validation)},
                   {{"hash", corpus.hash_}});
  corpus.file_ = Safetensors::Open(cache);
  return corpus;
}

// What is not as it was written (another type, shape, length or vocabulary) is
// made anew, like what is absent: the text has it all.
bool Corpus::Read(const Path& cache, int64_t least, int64_t vocabulary) {
  try {
    Safetensors file = Safetensors::Open(cache);
    const auto found = file.metadata().find("hash");
    if (found == file.metadata().end() || found->second != hash_) return false;
    for (const char* name : {"train", "validation"}) {
      const ConstTensorView view = file.At(name);
      if (view.type != DType::kI32 || view.rank != 1) return false;
    }
    file_ = std::move(file);
    RequireSequence(train().size(), least);
    RequireTokenIds(train(), vocabulary, cache.string());
    RequireTokenIds(validation(), vocabulary, cache.string());
    return true;
  } catch (const Error&) {
    file_ = {};
    return false;
  }
}

std::span<const int32_t> Corpus::Stream(const char* name) const {
  return HostSpan<int32_t>(file_.At(name));
}

}  // namespace headwise

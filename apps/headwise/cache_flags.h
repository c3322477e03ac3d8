// --kv-policy and what belongs to it: which heads keep the keys and values of
// the whole text.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "command_line.h"
#include "engine_flags.h"
#include "headwise/base/json.h"
#include "headwise/cache.h"
#include "headwise/model.h"

namespace headwise {

struct CacheFlags {
  std::string policy = "all";  // "roles", or a file
  std::string profile;
  std::string out;
  std::optional<int64_t> sinks, window;
};
// `flags` must outlive the parse.
void AddCacheFlags(CommandLine line, CacheFlags& flags);

struct CacheChoice {
  KvPolicy policy;
  std::vector<std::string> why;  // "1.0 (induction 0.93)", one a whole head
  size_t heads = 0;              // that have a cache
};
// Before anything is opened: throws UsageError for flags without --kv-policy
// and for another device than the CPU.
void RequireCacheFlags(const CacheFlags& flags, const EngineFlags& engine);

// Nothing for "all". Roles come from the profile, or from the random repeats
// and needles that the model is shown. Writes --kv-out.
std::optional<CacheChoice> ChooseCache(const CacheFlags& flags,
                                       Transformer& model);

// "cache 41 KiB instead of 128 KiB (67.9 % saved): 5 of 64 heads keep …"
std::string ToText(const CacheChoice& choice, const CacheBytes& bytes);
Json ToJson(const CacheChoice& choice, const CacheBytes& bytes,
            const std::string& model_hash);

}  // namespace headwise

// Which heads keep the keys and values of all that came before, and which only
// those of its beginning (sinks) and its end (a window). No weight is touched.
// As a file: "headwise.kv-policy/1".
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "headwise/base/json.h"
#include "headwise/cache.h"
#include "headwise/head_ref.h"
#include "headwise/model/head_ref.h"

namespace headwise {

// The kind of the heads that have a cache of what was said: those of the
// decoder where there is one.
AttentionKind CachedKind(const Model& model);

// Throws Error(kInvalidArgument) for sinks < 0, window < 1, and heads that the
// model does not have or that have no such cache.
void RequireKvPolicy(const KvPolicy& policy, const Model& model);

// Groups of `layer` that keep everything, one entry a group: keys are shared,
// so one head that must keep them keeps them for its group.
std::vector<bool> WholeGroups(const KvPolicy& policy,
                              const AttentionLayer& layer);

// {"format": "headwise.kv-policy/1", "model_hash": …, "sinks": 4, "window": 64,
// "whole": ["5.1", …]}
Json ToJson(const KvPolicy& policy, const std::string& model_hash);

// Throws Error: kCorrupt naming file and key; kInvalidArgument for a policy of
// another model (one without a hash is for any) and as RequireKvPolicy does.
KvPolicy ReadKvPolicy(const std::filesystem::path& path, const Model& model,
                      const std::string& model_hash);

}  // namespace headwise

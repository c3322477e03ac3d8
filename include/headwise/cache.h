// The keys and values that heads keep of a growing text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "headwise/export.h"
#include "headwise/fields.h"
#include "headwise/head_ref.h"

namespace headwise {

class Transformer;  // model.h

/// Which heads keep the keys and values of all that came before, and which only
/// those of its beginning (sinks) and its end (a window). No weight is touched.
struct KvPolicy {
  int64_t sinks = 4;
  /// Positions up to and with the query's own: at least 1.
  int64_t window = 64;
  /// Heads of the stack that predicts that keep everything.
  std::vector<HeadRef> whole = {};

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("sinks", self.sinks, "first tokens that every head keeps",
          AtLeast(0));
    visit("window", self.window, "last tokens that every head keeps",
          AtLeast(1));
  }
};

/// Bytes that the cache of a text takes, and would take if every head kept
/// everything, with as much room for text.
struct CacheBytes {
  size_t kept = 0;
  size_t whole = 0;

  double saved() const {
    return whole == 0
               ? 0
               : 1 - static_cast<double>(kept) / static_cast<double>(whole);
  }
};

/// A policy from its file ("headwise.kv-policy/1"). Throws Error: kNotFound;
/// kCorrupt naming file and key; kInvalidArgument for one of another model, or
/// with heads that the model does not have.
HEADWISE_API KvPolicy ReadKvPolicy(const std::filesystem::path& path,
                                   const Transformer& model);

/// As that file holds it; model_hash: Transformer::hash.
HEADWISE_API std::string JsonText(const KvPolicy& policy,
                                  const std::string& model_hash);

}  // namespace headwise

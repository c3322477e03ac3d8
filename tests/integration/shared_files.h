// Real models and corpora that are not part of the project: tests look for
// them beside the checkout or in $HEADWISE_SHARED, and skip loudly otherwise.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace headwise {

inline std::filesystem::path SharedFolder() {
  if (const char* folder = std::getenv("HEADWISE_SHARED")) return folder;
  return std::filesystem::path(HEADWISE_SOURCE) / ".." / "shared";
}

// Models that a script fetched: $HEADWISE_MODELS, else models/ of the above.
inline std::filesystem::path ModelsFolder() {
  if (const char* folder = std::getenv("HEADWISE_MODELS")) return folder;
  return SharedFolder() / "models";
}

// A folder that holds what data/NAME.tar.xz does; "" where it cannot be
// unpacked.
inline std::filesystem::path UnpackedData(const std::string& name) {
  const auto folder = std::filesystem::path(testing::TempDir()) /
                      ("headwise-" + name + "-" + std::to_string(::getpid()));
  if (std::filesystem::exists(folder)) return folder;
  std::filesystem::create_directories(folder);
  const auto archive = SharedFolder() / "data" / (name + ".tar.xz");
  const std::string command =
      "tar xJf '" + archive.string() + "' -C '" + folder.string() + "'";
  return std::system(command.c_str()) == 0 ? folder : "";
}

}  // namespace headwise

// In a test body: path becomes the file's place, or the test is skipped.
#define HEADWISE_REQUIRE(path)                                       \
  if (!std::filesystem::exists(path)) {                              \
    GTEST_SKIP() << "SKIPPED: " << (path).string() << " is absent; " \
                 << "set HEADWISE_SHARED or HEADWISE_MODELS";        \
  }

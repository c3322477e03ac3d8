// Real models and corpora that are not part of the project: tests look for
// them beside the checkout or in $HEADWISE_SHARED, and skip loudly otherwise.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
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

// Archives of the shared data, unpacked for as long as the program runs.
class UnpackedArchives {
 public:
  ~UnpackedArchives() {
    for (const auto& [name, folder] : folders_) {
      std::filesystem::remove_all(folder);
    }
  }

  const std::filesystem::path& Folder(const std::string& name) {
    auto [place, fresh] = folders_.try_emplace(
        name, std::filesystem::path(testing::TempDir()) /
                  ("headwise-" + name + "-" + std::to_string(::getpid())));
    if (fresh) {
      std::filesystem::create_directories(place->second);
      const auto archive = SharedFolder() / "data" / (name + ".tar.xz");
      const std::string command = "tar xJf '" + archive.string() + "' -C '" +
                                  place->second.string() + "'";
      EXPECT_EQ(std::system(command.c_str()), 0) << command;
    }
    return place->second;
  }

 private:
  std::map<std::string, std::filesystem::path> folders_;
};

// A folder that holds what data/NAME.tar.xz does.
inline const std::filesystem::path& UnpackedData(const std::string& name) {
  static UnpackedArchives archives;
  return archives.Folder(name);
}

}  // namespace headwise

// In a test body: path becomes the file's place, or the test is skipped.
#define HEADWISE_REQUIRE(path)                                       \
  if (!std::filesystem::exists(path)) {                              \
    GTEST_SKIP() << "SKIPPED: " << (path).string() << " is absent; " \
                 << "set HEADWISE_SHARED or HEADWISE_MODELS";        \
  }

#define HEADWISE_REQUIRE_DATA(name) \
  HEADWISE_REQUIRE(SharedFolder() / "data" / (name ".tar.xz"))

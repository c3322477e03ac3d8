# What we build on; the Debian package of each is named in
# tools/packages.sh.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(hwy REQUIRED)
find_path(NLOHMANN_JSON_INCLUDE nlohmann/json.hpp REQUIRED)
find_path(CLI11_INCLUDE CLI/CLI.hpp REQUIRED)

if(HEADWISE_BUILD_TESTS)
  enable_testing()
  find_package(GTest REQUIRED)
endif()
if(HEADWISE_BUILD_BENCHMARKS)
  find_package(benchmark QUIET)
endif()

# The one library, its public headers and the package that find_package reads.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

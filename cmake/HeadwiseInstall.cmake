# The one library, its public headers, the program, and the package that
# find_package(headwise) reads. Our dependencies stay ours: only who links the
# static library must have them too.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Until 1.0 a minor version may change the interface.
set(compatible "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")
set_target_properties(headwise PROPERTIES
  VERSION ${PROJECT_VERSION} SOVERSION ${compatible})

install(TARGETS headwise EXPORT headwiseTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS headwise_app RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
# What the demo reads.
install(DIRECTORY "${PROJECT_SOURCE_DIR}/assets/novels"
                  "${PROJECT_SOURCE_DIR}/assets/novels-one-head"
                  "${PROJECT_SOURCE_DIR}/assets/planted"
                  "${PROJECT_SOURCE_DIR}/assets/text"
  DESTINATION ${CMAKE_INSTALL_DATADIR}/headwise)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/headwise"
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/headwise)
install(EXPORT headwiseTargets NAMESPACE headwise:: DESTINATION ${package_dir})
configure_package_config_file(
  "${CMAKE_CURRENT_LIST_DIR}/headwiseConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/headwiseConfig.cmake"
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(
  "${PROJECT_BINARY_DIR}/headwiseConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES
  "${PROJECT_BINARY_DIR}/headwiseConfig.cmake"
  "${PROJECT_BINARY_DIR}/headwiseConfigVersion.cmake"
  DESTINATION ${package_dir})

# `cmake --install build/release --prefix ...` installs libraries, headers, find_package(hakmem) and pkg-config here. By
# HakmemInstallTool.cmake it installs the command line tool, man pages, completions, documents and gdb's script.
if(NOT TARGET hakmem)
  return()
endif()
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/hakmem")

# hk_install_link(<what it leads to> <link>): a link in the installed tree, below the prefix unless it is absolute.
function(hk_install_link target link)
  install(
    CODE "
    get_filename_component(link \"${link}\" ABSOLUTE BASE_DIR \"\${CMAKE_INSTALL_PREFIX}\")
    set(link \"\$ENV{DESTDIR}\${link}\")
    get_filename_component(folder \"\${link}\" DIRECTORY)
    file(MAKE_DIRECTORY \"\${folder}\")
    file(CREATE_LINK \"${target}\" \"\${link}\" SYMBOLIC)"
  )
endfunction()

install(
  TARGETS hakmem hakmem_static hakmem_fast hakmem_secure
  EXPORT hakmem-targets
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
)
install(FILES "${PROJECT_BINARY_DIR}/libhakmem.a" "${PROJECT_BINARY_DIR}/hakmem-link.o"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}"
)
# hakmem-link.o as -lhakmem-link: linkers know an object by its content.
hk_install_link(hakmem-link.o "${CMAKE_INSTALL_LIBDIR}/libhakmem-link.a")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/hakmem" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT hakmem-targets NAMESPACE hakmem:: DESTINATION "${package_dir}")

configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/hakmem-config.cmake.in" hakmem-config.cmake INSTALL_DESTINATION "${package_dir}"
)
# Below 1.0 a minor version may change anything.
write_basic_package_version_file(hakmem-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/hakmem-config.cmake"
              "${CMAKE_CURRENT_BINARY_DIR}/hakmem-config-version.cmake" DESTINATION "${package_dir}"
)

# The .pc file has paths relative to its own place, so an installed tree may be moved.
set(pkgconfig_dir "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig")
file(RELATIVE_PATH pc_prefix "${pkgconfig_dir}" "${CMAKE_INSTALL_PREFIX}")
file(RELATIVE_PATH pc_libdir "${pkgconfig_dir}" "${CMAKE_INSTALL_FULL_LIBDIR}")
file(RELATIVE_PATH pc_includedir "${pkgconfig_dir}" "${CMAKE_INSTALL_FULL_INCLUDEDIR}")
configure_file("${PROJECT_SOURCE_DIR}/cmake/hakmem.pc.in" hakmem.pc @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/hakmem.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

# The libraries for musl lie beside those for glibc, in a folder of musl's. The tool is that of the machine.
if(TARGET hakmem_policy AND NOT CMAKE_INSTALL_LIBDIR MATCHES "-linux-musl$")
  include(HakmemInstallTool)
endif()

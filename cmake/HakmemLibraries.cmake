# The allocator (src/base ... src/api) and its instruments (src/unwind ... src/serve) as objects, and the libraries of
# them: hakmem and hakmem_static with the checks of src/policy/safety.h, hakmem_fast without them, hakmem_secure with
# the hardening of docs/hardened.md. A sanitizer build has the core alone, because a sanitizer brings its own malloc.

# The lower layers and the unwinder do not include src/policy/safety.h, so one set of their objects serves every
# variant. A file that begins to include it does not compile without HK_SAFETY. It moves to the list below.
file(
  GLOB common_sources CONFIGURE_DEPENDS
  "${PROJECT_SOURCE_DIR}/src/base/*.c"
  "${PROJECT_SOURCE_DIR}/src/os/*.c"
  "${PROJECT_SOURCE_DIR}/src/policy/*.c"
)
file(
  GLOB variant_sources CONFIGURE_DEPENDS
  "${PROJECT_SOURCE_DIR}/src/space/*.c"
  "${PROJECT_SOURCE_DIR}/src/heap/*.c"
  "${PROJECT_SOURCE_DIR}/src/api/*.c"
)
file(GLOB override_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/override/*.c"
     "${PROJECT_SOURCE_DIR}/src/override/*.cc"
)
list(REMOVE_ITEM common_sources "${PROJECT_SOURCE_DIR}/src/policy/safety.c")
list(APPEND variant_sources "${PROJECT_SOURCE_DIR}/src/policy/safety.c")
# The instruments. Without HK_INSTRUMENTS, src/api/no_instruments.c stands in for them.
file(GLOB common_instruments CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/unwind/*.c"
     "${PROJECT_SOURCE_DIR}/src/pprof/*.c"
)
file(
  GLOB variant_instruments CONFIGURE_DEPENDS
  "${PROJECT_SOURCE_DIR}/src/inspect/*.c"
  "${PROJECT_SOURCE_DIR}/src/report/*.c"
  "${PROJECT_SOURCE_DIR}/src/serve/*.c"
)
if(HK_INSTRUMENTS)
  list(REMOVE_ITEM variant_sources "${PROJECT_SOURCE_DIR}/src/api/no_instruments.c")
  list(APPEND common_sources ${common_instruments})
  list(APPEND variant_sources ${variant_instruments})
else()
  list(REMOVE_ITEM override_sources "${PROJECT_SOURCE_DIR}/src/override/whole_module.c")
endif()
set(export_map "${PROJECT_SOURCE_DIR}/src/override/hakmem.map")
# Goes up when a program that is linked with the last release would not run with this one (tools/check_abi.py).
set(HK_SOVERSION 0)

# Sets what sources need that include internal headers, tests too. `safety` is 0, 1 or 2, or ANY for sources that do not
# depend on it. BEFORE: a project that holds this one may have a base/list.h of its own.
function(hk_see_internals target safety)
  target_include_directories(${target} BEFORE PRIVATE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/include")
  target_compile_definitions(
    ${target} PRIVATE HK_DEBUG=$<BOOL:${HK_DEBUG}> HK_COUNT=$<BOOL:$<TARGET_PROPERTY:${target},HK_COUNT>>
                      _GNU_SOURCE=1
  )
  if(NOT safety STREQUAL "ANY")
    target_compile_definitions(${target} PRIVATE HK_SAFETY=${safety})
  endif()
endfunction()

# Adds an OBJECT library of the sources for one safety level, or for ANY.
function(hk_add_objects target safety)
  add_library(${target} OBJECT ${ARGN})
  hk_see_internals(${target} ${safety})
  target_link_libraries(${target} PRIVATE hk_library_flags)
  set_target_properties(
    ${target}
    PROPERTIES C_STANDARD 17
               C_STANDARD_REQUIRED ON
               C_EXTENSIONS OFF
               CXX_STANDARD 17
               CXX_STANDARD_REQUIRED ON
               CXX_EXTENSIONS OFF
               POSITION_INDEPENDENT_CODE ON
               UNITY_BUILD OFF # also in a project with it that holds this one: files have names of their own in common
  )
endfunction()

# Adds a library of existing object libraries.
function(hk_add_library target kind output_name)
  add_library(${target} ${kind})
  add_library(hakmem::${target} ALIAS ${target})
  foreach(objects IN LISTS ARGN)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${objects}>)
  endforeach()
  target_include_directories(${target} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
  # Before 2.34, glibc has threads and dlsym in libraries of their own.
  set(visibility PRIVATE)
  if(kind STREQUAL "STATIC")
    set(visibility INTERFACE)
  endif()
  target_link_libraries(${target} ${visibility} -lpthread -ldl)
  set_target_properties(
    ${target}
    PROPERTIES OUTPUT_NAME ${output_name}
               LINKER_LANGUAGE C # with C++ every program would load libstdc++
               LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}"
               ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}"
  )
  if(kind STREQUAL "SHARED")
    # libhakmem.so is a link to libhakmem.so.0, the name that programs are bound to, and that one to the file itself.
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:hk_preload_link_flags>)
    target_link_options(${target} PRIVATE "SHELL:-Xlinker \"--version-script=${export_map}\"")
    set_target_properties(
      ${target} PROPERTIES LINK_DEPENDS "${export_map};${order_script}" VERSION ${PROJECT_VERSION}
                           SOVERSION ${HK_SOVERSION}
    )
  endif()
endfunction()

# Adds an object that refers to malloc to every program that links the library. Neither the compiler's knowledge of
# malloc nor link-time optimisation may remove the reference.
set(link_object "${PROJECT_BINARY_DIR}/hakmem-link.o")
function(hk_add_link_object)
  add_library(hakmem_link_code OBJECT "${PROJECT_SOURCE_DIR}/cmake/hakmem-link.c")
  target_compile_options(hakmem_link_code PRIVATE -fno-builtin -fno-lto -g0)
  set_target_properties(
    hakmem_link_code PROPERTIES POSITION_INDEPENDENT_CODE ON INTERPROCEDURAL_OPTIMIZATION OFF
  )
  add_custom_command(
    OUTPUT "${link_object}"
    COMMAND "${CMAKE_COMMAND}" -E copy_if_different "$<TARGET_OBJECTS:hakmem_link_code>" "${link_object}"
    DEPENDS hakmem_link_code "$<TARGET_OBJECTS:hakmem_link_code>"
    VERBATIM
  )
  # The linker script libhakmem.a lies beside the archive.
  set(script "${PROJECT_BINARY_DIR}/libhakmem.a")
  add_custom_command(
    OUTPUT "${script}"
    COMMAND "${CMAKE_COMMAND}" -E copy "${PROJECT_SOURCE_DIR}/cmake/libhakmem.a.in" "${script}"
    DEPENDS "${PROJECT_SOURCE_DIR}/cmake/libhakmem.a.in"
    VERBATIM
  )
  add_custom_target(hakmem_link DEPENDS "${link_object}" "${script}")
  foreach(target IN LISTS ARGN)
    add_dependencies(${target} hakmem_link)
    target_link_options(${target} INTERFACE "$<BUILD_INTERFACE:${link_object}>")
  endforeach()
endfunction()

hk_add_objects(hakmem_core_common ANY ${common_sources})
hk_add_objects(hakmem_core 1 ${variant_sources})

if(override_sources AND NOT HK_SANITIZE)
  # CMake would add the C++ runtime to every library with an object from C++.
  set(CMAKE_CXX_IMPLICIT_LINK_LIBRARIES "")
  # A program without a C++ runtime may load a shared library, so that refers to the runtime weakly.
  hk_add_objects(hakmem_override 1 ${override_sources})
  target_compile_definitions(hakmem_override PRIVATE HK_WEAK_RUNTIME=1)
  hk_add_objects(hakmem_override_static 1 ${override_sources})
  target_compile_definitions(hakmem_override_static PRIVATE HK_WEAK_RUNTIME=0)
  hk_add_library(hakmem SHARED hakmem hakmem_core_common hakmem_core hakmem_override)
  hk_add_library(hakmem_static STATIC hakmem-archive hakmem_core_common hakmem_core hakmem_override_static)

  hk_add_objects(hakmem_core_fast 0 ${variant_sources})
  hk_add_objects(hakmem_override_fast 0 ${override_sources})
  target_compile_definitions(hakmem_override_fast PRIVATE HK_WEAK_RUNTIME=1)
  hk_add_library(hakmem_fast SHARED hakmem-fast hakmem_core_common hakmem_core_fast hakmem_override_fast)

  hk_add_objects(hakmem_core_secure 2 ${variant_sources})
  hk_add_objects(hakmem_override_secure 2 ${override_sources})
  target_compile_definitions(hakmem_override_secure PRIVATE HK_WEAK_RUNTIME=1)
  hk_add_library(hakmem_secure SHARED hakmem-secure hakmem_core_common hakmem_core_secure hakmem_override_secure)
  hk_add_link_object(hakmem hakmem_static hakmem_fast hakmem_secure)
  # gcc leaves the index of the unwind tables out of programs that it links with -static; call stacks need it.
  # Meson, which reads the installed targets, does not know `LINKER:`.
  target_link_options(hakmem_static INTERFACE -Wl,--eh-frame-hdr)

  # The counting build: the default library, which also counts events that do not show in its speed (HK_COUNT). Built on
  # request only.
  hk_add_objects(hakmem_core_count 1 ${common_sources} ${variant_sources})
  hk_add_objects(hakmem_override_count 1 ${override_sources})
  target_compile_definitions(hakmem_override_count PRIVATE HK_WEAK_RUNTIME=1)
  hk_add_library(hakmem_count SHARED hakmem-count hakmem_core_count hakmem_override_count)
  set_target_properties(hakmem_core_count hakmem_override_count PROPERTIES HK_COUNT ON)
  set_target_properties(hakmem_core_count hakmem_override_count hakmem_count PROPERTIES EXCLUDE_FROM_ALL ON)
endif()

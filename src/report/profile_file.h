/* report/profile_file.h - L9. The file that HAKMEM_PROFILE_FILE names: the heap profile, when the program ends. */
#ifndef HK_REPORT_PROFILE_FILE_H
#define HK_REPORT_PROFILE_FILE_H

/* At the start: says it now rather than after hours when the file cannot be made, or when none is named and one is sampled for. */
void hk_profile_file_check(void);

/* At the end: writes the profile into a new file, if one was ever started. Without %p in its name it is the first process's alone. A
 * failure is said, and changes nothing else. */
void hk_profile_file_finish(void);

#endif /* HK_REPORT_PROFILE_FILE_H */

"""A worker under load for a long time: does it grow? And what does it cost when it idles?"""

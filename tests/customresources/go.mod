module kinescope.dev/customresources

go 1.26
